"""Pass names of CANN's automatic fusion, which switch the kinds of areas of graph kernel fusion."""
