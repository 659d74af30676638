/* Instances, steps, and files of states; see prograd.h. Compile with -DPROGRAD_NO_FILES for systems
 * without files. */
#include "prograd_tables.h"

#include <string.h>
#ifndef PROGRAD_NO_FILES
#include <stdio.h>
#endif

typedef char prograd_fits[sizeof(struct prograd) <= 512 ? 1 : -1]; /* room that the tables leave */

const char *prograd_text(const prograd *self, int64_t at) { return self->program->text + at; }
const char *prograd_error(const prograd *self) { return self->why; }

int prograd_fail(prograd *self, int error, const char *what, const char *why) {
  size_t used = strlen(what) < 140 ? strlen(what) : 140, more = strlen(why) < 100 ? strlen(why) : 100;
  memcpy(self->why, what, used);
  memcpy(self->why + used, why, more);
  self->why[used + more] = 0;
  return error;
}

static const unsigned char *place_of(const prograd *self, int64_t base, int64_t at) {
  return (base == PROGRAD_CONSTANTS ? self->program->constants : self->memory) + at;
}

/* Copy elements to a row-major array; the last axes without gaps are one item. Return its end. */
static unsigned char *gather(unsigned char *to, const unsigned char *from, int64_t rank,
                             const int64_t *shape, const int64_t *strides, size_t item) {
  if (rank == 0) return memcpy(to, from, item), to + item;
  for (int64_t i = 0; i < *shape; i++)
    to = gather(to, from + i * *strides, rank - 1, shape + 1, strides + 1, item);
  return to;
}

static void give(const prograd *self, const prograd_place *place, unsigned char *to) {
  const int64_t *numbers = self->program->numbers;
  gather(to, place_of(self, place->base, place->at), place->rank, numbers + place->shape,
         numbers + place->strides, (size_t)place->item);
  for (int64_t i = place->widened; i-- > 0;) { /* bfloat16 to float, from the last one on */
    uint16_t half;
    memcpy(&half, to + 2 * i, 2);
    uint32_t whole = (uint32_t)half << 16;
    memcpy(to + 4 * i, &whole, 4);
  }
}

/* Fill the tables of an entry with addresses. */
static void bind(prograd *self, const prograd_entry *entry) {
  const prograd_program *program = self->program;
  int64_t *words = (int64_t *)(self->memory + entry->words_at);
  int64_t *chunks = (int64_t *)(self->memory + entry->chunks_at);
  for (int64_t i = 0; i < entry->word_count; i++) {
    const int64_t *word = program->words + 2 * (entry->words + i);
    words[i] = word[1];
    if (word[0] != PROGRAD_NUMBER)
      words[i] = (int64_t)(intptr_t)place_of(self, word[0], word[1]);
  }
  for (int64_t i = 0; i < entry->chunk_count; i++) {
    const int64_t *chunk = program->chunks + CHUNK_WORDS * (entry->chunks + i);
    memcpy(chunks + CHUNK_WORDS * i, chunk, CHUNK_WORDS * sizeof *chunk);
    chunks[CHUNK_WORDS * i] = chunk[0] < 0 ? 0 : (int64_t)(intptr_t)program->groups[chunk[0]];
    chunks[CHUNK_WORDS * i + 1] = (int64_t)(intptr_t)(words + chunk[1]);
  }
}

static void drive(prograd *self, const prograd_entry *entry, int64_t first, int64_t last) {
  const prograd_program *program = self->program;
  int64_t *board = (int64_t *)(self->memory + program->sizes->board);
  const int64_t *phases = program->phases + 2 * entry->phases;
  const int64_t *chunks = (const int64_t *)(self->memory + entry->chunks_at);
  if (self->gather_team) self->gather_team(self, phases, chunks);
  board[BOARD_ALARM] = (int64_t)(intptr_t)(self->memory + entry->checks_at);
  board[BOARD_WORDS] = (int64_t)(intptr_t)(self->memory + entry->words_at);
  board[BOARD_ACTIONS] = (int64_t)(intptr_t)(program->actions + 5 * entry->actions);
  board[BOARD_PAUSED] = -1; /* loops run to their end */
  program->drive(board, phases, chunks, first, last, self->threads, self->give_way);
}

static int refused(prograd *self, const prograd_entry *entry) {
  int64_t *words = (int64_t *)(self->memory + entry->checks_at);
  const char *why = "an op refuses a number";
  for (int64_t i = entry->check_count; i-- > 0;) {
    const prograd_check *check = self->program->checks + entry->checks + i;
    if (words[1 + check->group]) why = prograd_text(self, check->why);
    words[1 + check->group] = 0;
  }
  words[0] = 0;
  return prograd_fail(self, PROGRAD_REFUSED, why, "");
}

int prograd_step(prograd *self, int number, const void *const *feeds, void *const *fetches) {
  const prograd_program *program = self->program;
  const prograd_entry *entry = program->entries + number;
  const prograd_place *feed = program->places + entry->feeds, *fetch = program->places + entry->fetches;
  int64_t *packed = (int64_t *)(self->memory + program->sizes->versions) + number;
  int64_t *length = (int64_t *)(self->memory + program->sizes->length);
  if (entry->reads_length && *length < 1)
    return prograd_fail(self, PROGRAD_NO_LENGTH, prograd_text(self, entry->name),
                        " reads total_steps, the steps of the whole run; set it before the first");
  for (int64_t i = 0; i < entry->feed_count; i++) {
    const unsigned char *bytes = feeds[i];
    for (int64_t j = 0; feed[i].widened && j < feed[i].bytes; j++) /* of a feed: truth values */
      if (bytes[j] > 1)
        return prograd_fail(self, PROGRAD_REFUSED, prograd_text(self, feed[i].name),
                            " has a byte that is neither 0 nor 1, and its elements are bool");
    memcpy(self->memory + feed[i].at, bytes, (size_t)feed[i].bytes);
  }
  for (int64_t i = 0; i < entry->fetch_count; i++)
    if (fetch[i].early && fetches[i]) give(self, fetch + i, fetches[i]);
  if (entry->packing < entry->packing_end && *packed != self->changes) {
    drive(self, entry, entry->packing, entry->packing_end);
    *packed = self->changes;
  }
  drive(self, entry, 0, entry->phase_count);
  self->changes += entry->trains;
  if (*(int64_t *)(self->memory + entry->checks_at)) return refused(self, entry);
  for (int64_t i = 0; i < entry->copy_count; i++)
    give(self, program->places + entry->copies + i,
         self->memory + program->places[entry->copies + i].to);
  for (int64_t i = 0; i < entry->fetch_count; i++)
    if (!fetch[i].early && fetches[i]) give(self, fetch + i, fetches[i]);
  return PROGRAD_OK;
}

static void restore(prograd *self, const prograd_restored *total) { /* those of training come first */
  for (int64_t i = 0; i < self->program->sizes->restored; i++, total++)
    memcpy(self->memory + total->at, self->program->constants + total->constant, (size_t)total->bytes);
}

void prograd_begin_epoch(prograd *self) { restore(self, self->program->restored); }

void prograd_begin_evaluation(prograd *self) {
  restore(self, self->program->restored + self->program->sizes->restored);
}

static const prograd_state_place *state_of(const prograd *self, const char *name) {
  for (int64_t i = 0; i < self->program->sizes->states; i++)
    if (!strcmp(prograd_text(self, self->program->states[i].name), name))
      return self->program->states + i;
  return NULL;
}

const void *prograd_state(const prograd *self, const char *name, size_t *bytes) {
  const prograd_state_place *state = state_of(self, name);
  if (state && bytes) *bytes = (size_t)state->bytes;
  return state ? self->memory + state->at : NULL;
}

int prograd_set(prograd *self, const char *name, const void *elements, size_t bytes) {
  const prograd_state_place *state = state_of(self, name);
  if (!state || (size_t)state->bytes != bytes)
    return prograd_fail(self, PROGRAD_NO_STATE, name,
                        state ? " has another number of bytes" : " is no state of the program");
  memcpy(self->memory + state->at, elements, bytes);
  self->changes++;
  return PROGRAD_OK;
}

/* SHA-256, as FIPS 180-4 defines it. */
typedef struct {
  uint32_t sums[8];
  uint64_t bytes;
  unsigned char block[64];
} hash;

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

static void mix(hash *h) {
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

static void add_bytes(hash *h, const void *from, size_t count) {
  const unsigned char *bytes = from;
  for (size_t i = 0; i < count; i++) {
    h->block[h->bytes++ % 64] = bytes[i];
    if (h->bytes % 64 == 0) mix(h);
  }
}

static void add_word(hash *h, uint64_t word, int is_big) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(word >> 8 * (is_big ? 7 - i : i));
  add_bytes(h, bytes, 8);
}

static void add_text(hash *h, const char *text) {
  add_word(h, strlen(text), 0);
  add_bytes(h, text, strlen(text));
}

void prograd_state_sha256(const prograd *self, char digits[65]) {
  const prograd_program *program = self->program;
  const int64_t *numbers = program->numbers;
  hash h = {{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
            0, {0}};
  add_word(&h, (uint64_t)program->sizes->states, 0);
  for (int64_t i = 0; i < program->sizes->states; i++) {
    const prograd_state_place *state = program->states + numbers[program->sizes->by_name + i];
    add_text(&h, prograd_text(self, state->name));
    add_text(&h, prograd_text(self, state->dtype));
    add_word(&h, (uint64_t)state->rank, 0);
    for (int64_t j = 0; j < state->rank; j++) add_word(&h, (uint64_t)numbers[state->shape + j], 0);
    add_word(&h, (uint64_t)state->bytes, 0);
    add_bytes(&h, self->memory + state->at, (size_t)state->bytes);
  }
  uint64_t bits = 8 * h.bytes;
  for (add_bytes(&h, "\200", 1); h.bytes % 64 != 56;) add_bytes(&h, "", 1);
  add_word(&h, bits, 1);
  for (int i = 0; i < 64; i++) digits[i] = "0123456789abcdef"[h.sums[i / 8] >> (28 - 4 * (i % 8)) & 15];
  digits[64] = 0;
}

/* Files of states: 8 bytes with the length of a header, the header in JSON, then the elements. */
typedef struct {
  void *file; /* or NULL, and the whole file is in `bytes` */
  const unsigned char *bytes;
  uint64_t size, at, header;
  int c, matched;    /* the next byte; bytes of "program_sha256" that precede it */
  char sha256[65];
} source;

static void next(source *s) {
#ifndef PROGRAD_NO_FILES
  s->c = s->at >= s->size ? -1 : s->file ? getc((FILE *)s->file) : s->bytes[s->at];
#else
  s->c = s->at >= s->size ? -1 : s->bytes[s->at];
#endif
  s->at++;
}

static int take(source *s, int c) {
  while (s->c == ' ' || s->c == '\n') next(s);
  return s->c == c ? next(s), 1 : 0;
}

static int text(source *s, char *to, size_t room) { /* with its escapes; what has no room is left out */
  static const char key[] = "program_sha256";
  size_t n = 0;
  if (!take(s, '"')) return 0;
  for (int escaped = 0; s->c >= 0 && (s->c != '"' || escaped); next(s)) {
    escaped = s->c == '\\' && !escaped;
    if (n + 1 < room) to[n++] = (char)s->c;
    if (s->matched < 14) s->matched = s->c == key[s->matched] ? s->matched + 1 : s->c == key[0];
    else if (s->matched < 78 && strchr("0123456789abcdef", s->c)) s->sha256[s->matched++ - 14] = (char)s->c;
  }
  to[n] = 0;
  return take(s, '"');
}

static int numbers(source *s, int64_t *to, int room) { /* return how many, or -1 */
  int n = 0;
  if (!take(s, '[')) return -1;
  while (!take(s, ']')) {
    if (n == room || (n && !take(s, ',')) || (take(s, ' '), s->c < '0') || s->c > '9') return -1;
    for (to[n] = 0; s->c >= '0' && s->c <= '9' && to[n] < INT64_MAX / 16; next(s))
      to[n] = 10 * to[n] + s->c - '0';
    n++;
  }
  return n;
}

static int tensor(source *s, char word[8], int64_t shape[32], int *rank, int64_t extent[2]) {
  char key[16];
  int parts = 0;
  if (!take(s, '{')) return 0;
  do {
    if (!text(s, key, sizeof key) || !take(s, ':')) return 0;
    if (!strcmp(key, "dtype") && text(s, word, 8)) parts |= 1;
    else if (!strcmp(key, "shape") && (*rank = numbers(s, shape, 32)) >= 0) parts |= 2;
    else if (!strcmp(key, "data_offsets") && numbers(s, extent, 2) == 2) parts |= 4;
    else return 0;
  } while (take(s, ','));
  return take(s, '}') && parts == 7;
}

static int metadata(source *s) {
  char unused[8];
  if (!take(s, '{')) return 0;
  if (take(s, '}')) return 1;
  do {
    if (!text(s, unused, 8) || !take(s, ':') || !text(s, unused, 8)) return 0;
  } while (take(s, ','));
  return take(s, '}');
}

/* Look at the next tensor of the header, and note where the state of its name begins. */
static int look(prograd *self, source *s, int64_t *found) {
  char name[512], word[8];
  int64_t shape[32], extent[2];
  int rank = 0;
  if (!text(s, name, sizeof name) || !take(s, ':')) return PROGRAD_DAMAGED;
  if (!strcmp(name, "__metadata__")) return metadata(s) ? PROGRAD_OK : PROGRAD_DAMAGED;
  if (!tensor(s, word, shape, &rank, extent)) return PROGRAD_DAMAGED;
  if (extent[0] > extent[1] || 8 + s->header + (uint64_t)extent[1] > s->size) return PROGRAD_DAMAGED;
  const prograd_state_place *state = state_of(self, name);
  for (char *c = name; !state && *c; c++) /* a name is printed: one of a stranger's file may be anything */
    if (*c < ' ' || *c > '~') *c = '?';
  if (!state) /* the best states of a run, and its position, are Python's */
    return !strncmp(name, "run:", 4) ? PROGRAD_OK
           : prograd_fail(self, PROGRAD_OTHER_PROGRAM, name, " is in the file and is no state of the program");
  if (strcmp(prograd_text(self, state->word), word) || state->rank != rank ||
      memcmp(self->program->numbers + state->shape, shape, (size_t)rank * sizeof *shape) ||
      extent[1] - extent[0] != state->bytes)
    return prograd_fail(self, PROGRAD_OTHER_PROGRAM, prograd_text(self, state->name),
                        " has another type or shape in the file than in the program");
  found[state - self->program->states] = extent[0];
  return PROGRAD_OK;
}

static int read_states(prograd *self, source *s, const char *what, int all) {
  const prograd_sizes *sizes = self->program->sizes;
  int64_t *found = (int64_t *)(self->memory + sizes->found);
  int error = PROGRAD_DAMAGED;
  memset(found, 255, (size_t)sizes->states * sizeof *found); /* -1 */
  next(s);
  for (int i = 0; i < 8 && s->c >= 0; i++, next(s)) s->header |= (uint64_t)s->c << 8 * i;
  if (s->size >= 8 && s->header <= s->size - 8 && take(s, '{'))
    do error = look(self, s, found);
    while (!error && take(s, ','));
  if (error == PROGRAD_DAMAGED || (!error && !take(s, '}')))
    return prograd_fail(self, PROGRAD_DAMAGED, what, ": cut short, or no file of tensors");
  if (error) return error;
  if (s->matched == 78 && strcmp(s->sha256, prograd_text(self, sizes->sha256)))
    return prograd_fail(self, PROGRAD_OTHER_PROGRAM, what, ": has states of another program");
  for (int64_t i = 0; i < sizes->states; i++)
    if (found[i] < 0 && (all || !self->program->states[i].kept))
      return prograd_fail(self, PROGRAD_OTHER_PROGRAM, prograd_text(self, self->program->states[i].name),
                          " is not in the file");
  self->changes++;
  for (int64_t i = 0; i < sizes->states; i++) {
    const prograd_state_place *state = self->program->states + i;
    uint64_t at = 8 + s->header + (uint64_t)found[i];
    size_t bytes = (size_t)state->bytes;
    if (found[i] < 0) continue;
#ifndef PROGRAD_NO_FILES
    if (s->file && (fseek(s->file, (long)at, SEEK_SET) ||
                    fread(self->memory + state->at, 1, bytes, s->file) != bytes))
      return prograd_fail(self, PROGRAD_NO_FILE, what, ": cannot be read");
#endif
    if (!s->file) memcpy(self->memory + state->at, s->bytes + at, bytes);
  }
  return PROGRAD_OK;
}

static int read_bytes(prograd *self, const void *file, size_t bytes, int all) {
  source s = {NULL, file, bytes, 0, 0, 0, 0, {0}};
  return read_states(self, &s, "the file in memory", all);
}

int prograd_load_bytes(prograd *self, const void *file, size_t bytes) {
  return read_bytes(self, file, bytes, 0);
}

/* Return whether this CPU has the instructions of a library: AVX2, AVX-512 or AVX-512 BF16. */
static int has_instructions(int64_t cpu) {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (cpu > 0 && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return 0;
  if (cpu > 1 && !(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vl")))
    return 0;
  return cpu < 3 || __builtin_cpu_supports("avx512bf16");
#else
  return cpu >= 0;
#endif
}

int prograd_open_bytes(prograd **self, const prograd_program *const *programs, const void *file,
                       size_t bytes, void *memory) {
  const prograd_program *program = *programs;
  while (*programs && !has_instructions((*programs)->sizes->cpu)) programs++;
  if (*programs) program = *programs;
  unsigned char *start = (unsigned char *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
  memset(start, 0, (size_t)program->sizes->bytes);
  *self = (prograd *)start;
  (*self)->program = program;
  (*self)->memory = start;
  (*self)->threads = 1;
  (*self)->changes = 1;
  if (!*programs)
    return prograd_fail(*self, PROGRAD_NO_CPU, prograd_text(*self, program->sizes->name),
                        ": this CPU lacks the instructions that the library was built for");
  for (int64_t i = 0; i < program->sizes->entries; i++) bind(*self, program->entries + i);
  prograd_begin_epoch(*self);
  prograd_begin_evaluation(*self);
  return file ? read_bytes(*self, file, bytes, 1) : PROGRAD_OK;
}

#ifndef PROGRAD_NO_FILES
static int read_file(prograd *self, const char *path, int all) {
  FILE *file = fopen(path, "rb");
  if (!file) return prograd_fail(self, PROGRAD_NO_FILE, path, ": cannot be opened");
  source s = {file, NULL, 0, 0, 0, 0, 0, {0}};
  long size = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
  int error = PROGRAD_NO_FILE;
  s.size = (uint64_t)size;
  if (size < 0 || fseek(file, 0, SEEK_SET)) prograd_fail(self, error, path, ": cannot be read");
  else error = read_states(self, &s, path, all);
  fclose(file);
  return error;
}

int prograd_open(prograd **self, const prograd_program *const *programs, const char *path,
                 void *memory) {
  int error = prograd_open_bytes(self, programs, NULL, 0, memory);
  return error || !path ? error : read_file(*self, path, 1);
}

int prograd_load(prograd *self, const char *path) { return read_file(self, path, 0); }

int prograd_save(prograd *self, const char *path) {
  const prograd_sizes *sizes = self->program->sizes;
  char other[1024];
  if (strlen(path) + 5 > sizeof other) return prograd_fail(self, PROGRAD_NO_FILE, path, ": too long");
  strcat(strcpy(other, path), ".new"); /* the old file stays until the new one is whole */
  FILE *file = fopen(other, "wb");
  if (!file) return prograd_fail(self, PROGRAD_NO_FILE, path, ": cannot be written");
  int whole = fwrite(self->program->header, 1, (size_t)sizes->header_bytes, file) == (size_t)sizes->header_bytes;
  for (int64_t i = 0; whole && i < sizes->states; i++) {
    const prograd_state_place *state = self->program->states + i;
    whole = fwrite(self->memory + state->at, 1, (size_t)state->bytes, file) == (size_t)state->bytes;
  }
  whole = !fclose(file) && whole && !rename(other, path);
  if (!whole) remove(other);
  return whole ? PROGRAD_OK : prograd_fail(self, PROGRAD_NO_FILE, path, ": cannot be written");
}
#endif
