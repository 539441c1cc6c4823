/* Makes the libraries of a process take its processor for an older one: an audit library of the dynamic linker
 * (rtld-audit(7)).
 *
 * Libraries query the features of the processor with the instruction CPUID. Each CPUID in PLACES becomes a breakpoint
 * as soon as its library is mapped, before any code in it runs. The handler here answers with the features of the older
 * processor. older_processor.py finds the places, and defines the older processor by macros. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static const struct {
    const char *library;
    unsigned long address;
} PLACES[] = {
#include "places.h"
};
/* If this bit is set, vendors report in different ways which threads share a core. */
static const unsigned HYPER_THREADS = 1u << 28;
static const unsigned char CPUID[] = {0x0F, 0xA2}, BREAKPOINT[] = {0xCC, 0x90};

static void answer(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (memcmp((char *)registers[REG_RIP] - 1, BREAKPOINT, 2) != 0)
        abort(); /* a breakpoint of another program */
    unsigned leaf = registers[REG_RAX], subleaf = registers[REG_RCX], a, b, c, d;
    __cpuid_count(leaf, subleaf, a, b, c, d);
    switch (leaf) {
    case 0: /* the vendor, spelled in b, d and c */
        memcpy(&b, "Genu", 4), memcpy(&d, "ineI", 4), memcpy(&c, "ntel", 4);
        break;
    case 1:
        a = SIGNATURE, c &= LEAF_1_C, d &= ~HYPER_THREADS;
        break;
    case 7: /* c, d and the subleaves have no features of these processors */
        a = c = d = 0, b = subleaf == 0 ? b & LEAF_7_B : 0;
        break;
    case 0x1D: /* AMX and AVX10 */
    case 0x1E:
    case 0x24:
        a = b = c = d = 0;
        break;
    case 0x80000001:
        c &= LEAF_80000001_C;
        break;
    }
    registers[REG_RAX] = a, registers[REG_RBX] = b, registers[REG_RCX] = c, registers[REG_RDX] = d;
}

static void stop(const char *library, const char *what) {
    fprintf(stderr, "older_processor: %s: %s\n", library, what);
    _exit(1);
}

static void trap(const char *library, unsigned char *code) {
    if (memcmp(code, CPUID, 2) != 0)
        stop(library, "no CPUID where there was one");
    long size = sysconf(_SC_PAGESIZE);
    void *page = (void *)((unsigned long)code / size * size);
    if (mprotect(page, 2 * size, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        stop(library, "its code cannot be written");
    memcpy(code, BREAKPOINT, 2);
    mprotect(page, 2 * size, PROT_READ | PROT_EXEC);
}

unsigned la_version(unsigned version) {
    struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigaction(SIGTRAP, &action, NULL);
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie) {
    (void)space, (void)cookie;
    char path[PATH_MAX];
    if (realpath(map->l_name, path) != NULL)
        for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++)
            if (strcmp(path, PLACES[i].library) == 0)
                trap(path, (unsigned char *)map->l_addr + PLACES[i].address);
    return 0;
}
