/* Instances and their steps; see prograd.h. */
#include "prograd_tables.h"
#include <string.h>

typedef char prograd_fits[sizeof(struct prograd) <= 320 ? 1 : -1]; /* room that the tables leave */
const char *prograd_text(const prograd *self, int64_t at) { return self->program->text + at; }
const char *prograd_error(const prograd *self) { return self->why; }
int prograd_fail(prograd *self, int error, const char *what, const char *why) {
  size_t used = strlen(what) < 140 ? strlen(what) : 140, more = strlen(why) < 100 ? strlen(why) : 100;
  memcpy(self->why, what, used);
  memcpy(self->why + used, why, more);
  self->why[used + more] = 0;
  return error;
}

int prograd_same(const char *one, const char *other) {
  while (*one && *one == *other) one++, other++;
  return *one == *other;
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
  for (int64_t i = place->widened ? place->bytes / 2 : 0; i-- > 0;) { /* bfloat16 to float, from the last one on */
    uint16_t half;
    memcpy(&half, to + 2 * i, 2);
    uint32_t whole = (uint32_t)half << 16;
    memcpy(to + 4 * i, &whole, 4);
  }
}

/* Fill the table of an entry with addresses. The first byte of a word has its base in two bits, then five of its
 * number, further ones have seven each; the highest bit of a byte says that another follows. The number's sign is its
 * lowest bit. */
static void bind(prograd *self, const prograd_entry *entry) {
  const unsigned char *at = self->program->words + entry->words;
  int64_t *words = (int64_t *)(self->memory + entry->words_at);
  for (int64_t i = 0; i < entry->word_count; i++) {
    int base = *at & 3;
    uint64_t number = *at >> 2 & 31;
    for (int shift = 5; *at++ & 128; shift += 7) number |= (uint64_t)(*at & 127) << shift;
    words[i] = (int64_t)(number >> 1 ^ (0 - (number & 1)));
    if (base == PROGRAD_LINES) words[i] *= 64;
    if (base != PROGRAD_NUMBER) words[i] = (int64_t)(intptr_t)place_of(self, base, words[i]);
  }
}

static void drive(prograd *self, const prograd_entry *entry, int64_t first, int64_t last) {
  const prograd_program *program = self->program;
  int64_t *board = (int64_t *)(self->memory + program->sizes->board);
  const prograd_phase *phases = program->phases + entry->phases;
  const prograd_chunk *chunks = program->chunks + entry->chunks;
  if (self->gather_team) self->gather_team(self, phases, chunks);
  board[BOARD_ALARM] = (int64_t)(intptr_t)(self->memory + entry->checks_at);
  board[BOARD_WORDS] = (int64_t)(intptr_t)(self->memory + entry->words_at);
  board[BOARD_ACTIONS] = (int64_t)(intptr_t)(program->actions + entry->actions);
  board[BOARD_FUNCTIONS] = (int64_t)(intptr_t)program->groups;
  board[BOARD_PAUSED] = -1; /* loops run to their end */
  program->drive(board, phases, chunks, first, last, self->threads, self->give_way);
}

static int refused(prograd *self, const prograd_entry *entry, const void *const *feeds) {
  int64_t *words = (int64_t *)(self->memory + entry->checks_at);
  prograd_fail(self, PROGRAD_REFUSED, "an op refuses a number", "");
  for (int64_t i = entry->check_count; i-- > 0;) {
    const prograd_check *check = self->program->checks + entry->checks + i;
    if (words[1 + check->group]) prograd_say_check(self, entry, check, feeds);
    words[1 + check->group] = 0;
  }
  words[0] = 0;
  return PROGRAD_REFUSED;
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
  if (*(int64_t *)(self->memory + entry->checks_at)) return refused(self, entry, feeds);
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

const prograd_state_place *prograd_state_of(const prograd *self, const char *name) {
  for (int64_t i = 0; i < self->program->sizes->states; i++)
    if (prograd_same(prograd_text(self, self->program->states[i].name), name))
      return self->program->states + i;
  return NULL;
}

const void *prograd_state(const prograd *self, const char *name, size_t *bytes) {
  const prograd_state_place *state = prograd_state_of(self, name);
  if (state && bytes) *bytes = (size_t)state->bytes;
  return state ? self->memory + state->at : NULL;
}

int prograd_set(prograd *self, const char *name, const void *elements, size_t bytes) {
  const prograd_state_place *state = prograd_state_of(self, name);
  if (!state || (size_t)state->bytes != bytes)
    return prograd_fail(self, PROGRAD_NO_STATE, name,
                        state ? " has another number of bytes" : " is no state of the program");
  memcpy(self->memory + state->at, elements, bytes);
  self->changes++;
  return PROGRAD_OK;
}

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

/* Return whether this CPU has the instructions of a library: AVX2, AVX-512, its VNNI or its BF16; dot products of NEON. */
static int has_instructions(int64_t cpu) {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (cpu > 0 && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return 0;
  if (cpu > 1 && !(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vl")))
    return 0;
  if (cpu > 2 && !__builtin_cpu_supports("avx512vnni")) return 0;
  return cpu < 4 || __builtin_cpu_supports("avx512bf16");
#elif defined(__aarch64__) && defined(__linux__)
  return cpu < 1 || (getauxval(AT_HWCAP) >> 20 & 1); /* HWCAP_ASIMDDP */
#else
  return cpu >= 0;
#endif
}

/* Bring the memory of steps into order. */
void prograd_prepare(prograd *self) {
  const prograd_sizes *sizes = self->program->sizes;
  memset(self->memory + sizes->working, 0, (size_t)(sizes->bytes - sizes->working));
  for (int64_t i = 0; i < sizes->entries; i++) bind(self, self->program->entries + i);
  prograd_begin_epoch(self);
  prograd_begin_evaluation(self);
  self->changes++;
}

int prograd_begin(prograd **self, const prograd_program *const *programs, void *memory) {
  const prograd_program *program = *programs;
  while (*programs && !has_instructions((*programs)->sizes->cpu)) programs++;
  if (*programs) program = *programs;
  unsigned char *start = (unsigned char *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
  memset(start, 0, (size_t)program->sizes->working);
  *self = (prograd *)start;
  (*self)->program = program;
  (*self)->memory = start;
  (*self)->threads = 1;
  (*self)->changes = 1;
  if (!*programs)
    return prograd_fail(*self, PROGRAD_NO_CPU, prograd_text(*self, program->sizes->name),
                        ": this CPU lacks the instructions that the library was built for");
  prograd_prepare(*self);
  return PROGRAD_OK;
}
#ifndef PROGRAD_SMALL /* a small host compiles the files that it calls */
#define PROGRAD_IN_ONE
#include "prograd_checks.c"
#include "prograd_files.c"
#include "prograd_sha256.c"
#endif
