/* SHA-256, as FIPS 180-4 defines it, and the hash of states; see prograd.h. */
#include "prograd_tables.h"
#if defined PROGRAD_SMALL || defined PROGRAD_IN_ONE /* else prograd.c has it */

#include <string.h>

static const uint32_t ROUNDS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turned(uint32_t x, int bits) { return x >> bits | x << (32 - bits); }

static void mix(prograd_hash *h) {
  uint32_t w[64], v[8];
  memcpy(v, h->sums, sizeof v);
  for (int i = 0; i < 16; i++)
    w[i] = (uint32_t)h->block[4 * i] << 24 | (uint32_t)h->block[4 * i + 1] << 16 |
           (uint32_t)h->block[4 * i + 2] << 8 | h->block[4 * i + 3];
  for (int i = 16; i < 64; i++)
    w[i] = w[i - 16] + w[i - 7] + (turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3) +
           (turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10);
  for (int i = 0; i < 64; i++) {
    uint32_t one = v[7] + (turned(v[4], 6) ^ turned(v[4], 11) ^ turned(v[4], 25)) +
                   ((v[4] & v[5]) ^ (~v[4] & v[6])) + ROUNDS[i] + w[i];
    uint32_t two = (turned(v[0], 2) ^ turned(v[0], 13) ^ turned(v[0], 22)) +
                   ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += one;
    v[0] = one + two;
  }
  for (int i = 0; i < 8; i++) h->sums[i] += v[i];
}

void prograd_hash_begin(prograd_hash *h) {
  static const uint32_t sums[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(h->sums, sums, sizeof sums);
  h->bytes = 0;
}

void prograd_hash_add(prograd_hash *h, const void *from, size_t count) {
  const unsigned char *bytes = from;
  for (size_t i = 0; i < count; i++) {
    h->block[h->bytes++ % 64] = bytes[i];
    if (h->bytes % 64 == 0) mix(h);
  }
}

static void add_word(prograd_hash *h, uint64_t word, int is_big) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(word >> 8 * (is_big ? 7 - i : i));
  prograd_hash_add(h, bytes, 8);
}

void prograd_hash_number(prograd_hash *h, uint64_t number) { add_word(h, number, 0); }

void prograd_hash_end(prograd_hash *h, char digits[65]) {
  uint64_t bits = 8 * h->bytes;
  for (prograd_hash_add(h, "\200", 1); h->bytes % 64 != 56;) prograd_hash_add(h, "", 1);
  add_word(h, bits, 1);
  for (int i = 0; i < 64; i++) digits[i] = "0123456789abcdef"[h->sums[i / 8] >> (28 - 4 * (i % 8)) & 15];
  digits[64] = 0;
}

void prograd_hash_tensor(prograd_hash *h, const prograd *self, const prograd_state_place *state,
                         const char *prefix, const char *name) {
  const char *dtype = prograd_text(self, state->dtype);
  const int64_t *shape = self->program->numbers + state->shape;
  prograd_hash_number(h, strlen(prefix) + strlen(name));
  prograd_hash_add(h, prefix, strlen(prefix));
  prograd_hash_add(h, name, strlen(name));
  prograd_hash_number(h, strlen(dtype));
  prograd_hash_add(h, dtype, strlen(dtype));
  prograd_hash_number(h, (uint64_t)state->rank);
  for (int64_t i = 0; i < state->rank; i++) prograd_hash_number(h, (uint64_t)shape[i]);
  prograd_hash_number(h, (uint64_t)state->bytes);
}

void prograd_state_sha256(const prograd *self, char digits[65]) {
  const prograd_program *program = self->program;
  prograd_hash h;
  prograd_hash_begin(&h);
  prograd_hash_number(&h, (uint64_t)program->sizes->states);
  for (int64_t i = 0; i < program->sizes->states; i++) {
    const prograd_state_place *state = program->states + program->numbers[program->sizes->by_name + i];
    prograd_hash_tensor(&h, self, state, "", prograd_text(self, state->name));
    prograd_hash_add(&h, self->memory + state->at, (size_t)state->bytes);
  }
  prograd_hash_end(&h, digits);
}
#endif
