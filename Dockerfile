# fusionc with a C compiler for generated kernels:
#     docker build -t fusionc .
#     docker run --rm -v "$PWD:/work" --user "$(id -u):$(id -g)" fusionc in.onnx out.onnx
FROM python:3.13-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN pip install --no-cache-dir '/source[report]' && rm -rf /source
# any user may run it: logs and kernels go to a folder that everybody can write to
ENV HOME=/tmp
WORKDIR /work
ENTRYPOINT ["fusionc"]
