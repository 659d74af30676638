/* AMX for tests on machines without it: a handler of SIGILL that decodes the instructions of tiles and computes them.

   Semantics: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2. A use that a CPU would refuse
   (#GP, #UD) ends the process with a message. One set of tiles per thread, as in hardware. */
#define _GNU_SOURCE
#include <immintrin.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { TILES = 8, ROWS = 16, BYTES = 64 };

struct state {
    int configured;
    uint8_t rows[TILES];
    uint16_t width[TILES]; /* bytes of a row */
    uint8_t data[TILES][ROWS][BYTES];
};

static __thread struct state state;
static struct sigaction before;
static volatile long products;

static void refuse(const char *why) {
    fprintf(stderr, "emulated AMX: %s\n", why);
    abort();
}

static const int REGISTERS[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

struct operand {
    int is_register, reg, rm;
    char *base;    /* without the index */
    int64_t index; /* scaled */
    int length;    /* bytes of ModRM and what follows */
};

static struct operand decode(const uint8_t *at, int vex, const greg_t *registers, int64_t after_opcode) {
    struct operand out = {0};
    int mod = at[0] >> 6, rm = at[0] & 7, x = !(vex & 0x40), b = !(vex & 0x20);
    out.reg = (at[0] >> 3 & 7) | !(vex & 0x80) << 3;
    out.is_register = mod == 3;
    out.rm = rm | b << 3;
    out.length = 1;
    if (out.is_register) return out;
    int has_base = 1, base = rm, size = mod == 1 ? 1 : mod == 2 ? 4 : 0, is_relative = 0;
    if (rm == 4) {
        int sib = at[out.length++], index = (sib >> 3 & 7) | x << 3;
        base = sib & 7;
        if (index != 4) out.index = (int64_t)((uint64_t)registers[REGISTERS[index]] << (sib >> 6));
        if (base == 5 && mod == 0) has_base = 0, size = 4;
    } else if (rm == 5 && mod == 0) {
        has_base = 0, size = 4, is_relative = 1;
    }
    int64_t displacement = 0;
    if (size == 1) displacement = (int8_t)at[out.length];
    if (size == 4) {
        int32_t wide;
        memcpy(&wide, at + out.length, 4);
        displacement = wide;
    }
    out.length += size;
    if (has_base) displacement += registers[REGISTERS[base | b << 3]];
    if (is_relative) displacement += after_opcode + out.length;
    out.base = (char *)displacement;
    return out;
}

static void configure(const uint8_t *from) {
    static const uint8_t zero[BYTES];
    if (from[0] != 1 || from[1] != 0) refuse("palette and first row have to be 1 and 0");
    if (memcmp(from + 2, zero, 14) || memcmp(from + 32, zero, 16) || memcmp(from + 56, zero, 8))
        refuse("reserved bytes of a configuration are not 0");
    memset(&state, 0, sizeof state);
    for (int t = 0; t < TILES; t++) {
        memcpy(&state.width[t], from + 16 + 2 * t, 2);
        state.rows[t] = from[48 + t];
        if (state.rows[t] > ROWS || state.width[t] > BYTES) refuse("a tile is too large");
        if (!state.rows[t] != !state.width[t]) refuse("a tile has rows or columns only");
    }
    state.configured = 1;
}

static void require(int tile) {
    if (tile >= TILES || !state.configured || !state.rows[tile]) refuse("a tile is used that is not configured");
}

static float wide(const uint8_t *at) {
    uint16_t half;
    memcpy(&half, at, 2);
    uint32_t word = (uint32_t)half << 16;
    float out;
    memcpy(&out, &word, 4);
    return out;
}

static void require_product(int to, int a, int b) {
    require(to), require(a), require(b);
    if (to == a || to == b || a == b) refuse("tiles of a product have to differ");
    if (state.width[to] != state.width[b] || state.rows[to] != state.rows[a] || state.width[a] / 4 != state.rows[b] ||
        (state.width[a] | state.width[b]) % 4)
        refuse("shapes of tiles of a product do not match");
}

static void multiply_bytes(int to, int a, int b) {
    require_product(to, a, b);
    for (int m = 0; m < state.rows[to]; m++)
        for (int n = 0; n < state.width[to] / 4; n++) {
            int32_t sum;
            memcpy(&sum, state.data[to][m] + 4 * n, 4);
            for (int k = 0; k < state.width[a]; k++)
                sum += (int32_t)state.data[a][m][k] * (int8_t)state.data[b][k / 4][4 * n + k % 4];
            memcpy(state.data[to][m] + 4 * n, &sum, 4);
        }
    __atomic_add_fetch(&products, 1, __ATOMIC_RELAXED);
}

static void multiply(int to, int a, int b) {
    require_product(to, a, b);
    int columns = state.width[to] / 4, pairs = state.width[a] / 4;
    unsigned mode = _mm_getcsr();
    _mm_setcsr(0x9fc0); /* nearest even; denormal operands and results are 0; nothing is signalled */
    for (int m = 0; m < state.rows[to]; m++) {
        float sums[2][ROWS] = {{0}};
        for (int k = 0; k < pairs; k++)
            for (int h = 0; h < 2; h++) {
                float x = wide(state.data[a][m] + 4 * k + 2 * h);
                for (int n = 0; n < columns; n++) {
                    __m128 y = _mm_set_ss(wide(state.data[b][k] + 4 * n + 2 * h));
                    sums[h][n] = _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(x), y, _mm_set_ss(sums[h][n])));
                }
            }
        for (int n = 0; n < columns; n++) {
            float old;
            memcpy(&old, state.data[to][m] + 4 * n, 4);
            __m128 both = _mm_add_ss(_mm_set_ss(sums[0][n]), _mm_set_ss(sums[1][n]));
            float sum = _mm_cvtss_f32(_mm_add_ss(_mm_set_ss(old), both));
            memcpy(state.data[to][m] + 4 * n, &sum, 4);
        }
    }
    _mm_setcsr(mode);
    __atomic_add_fetch(&products, 1, __ATOMIC_RELAXED);
}

static void emulate(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *at = (const uint8_t *)registers[REG_RIP];
    int is_vex = at[0] == 0xc4 && (at[1] & 0x1f) == 2 && !(at[2] & 0x84); /* map 0F38, W0, 128 bits */
    int prefix = at[2] & 3, other = ~(at[2] >> 3) & 15, code = at[3];
    if (!is_vex || (code != 0x49 && code != 0x4b && code != 0x5c && code != 0x5e)) {
        sigaction(SIGILL, &before, 0); /* it is raised again, for whoever was there before */
        return;
    }
    struct operand x = decode(at + 4, at[1], registers, registers[REG_RIP] + 4);
    if (code == 0x49 && prefix == 0 && !x.is_register) {
        configure((const uint8_t *)x.base + x.index);
    } else if (code == 0x49 && prefix == 0 && at[4] == 0xc0) {
        memset(&state, 0, sizeof state);
    } else if (code == 0x49 && prefix == 3 && x.is_register) {
        require(x.reg);
        memset(state.data[x.reg], 0, sizeof state.data[0]);
    } else if (code == 0x4b && prefix != 0 && !x.is_register) {
        require(x.reg);
        if (prefix == 2)
            for (int row = 0; row < state.rows[x.reg]; row++)
                memcpy(x.base + row * x.index, state.data[x.reg][row], state.width[x.reg]);
        else {
            memset(state.data[x.reg], 0, sizeof state.data[0]);
            for (int row = 0; row < state.rows[x.reg]; row++)
                memcpy(state.data[x.reg][row], x.base + row * x.index, state.width[x.reg]);
        }
    } else if (code == 0x5c && prefix == 2 && x.is_register) {
        multiply(x.reg, x.rm, other);
    } else if (code == 0x5e && prefix == 1 && x.is_register) { /* codes times signed bytes */
        multiply_bytes(x.reg, x.rm, other);
    } else {
        refuse("an instruction that is not known");
    }
    registers[REG_RIP] += 4 + x.length;
}

void install(void) {
    struct sigaction action = {0};
    action.sa_sigaction = emulate;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, &before);
}

void uninstall(void) { sigaction(SIGILL, &before, 0); }

long count(void) { return products; }
