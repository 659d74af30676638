/* A step whose shards several processes compute; link it only if you call it. */
#include "prograd_tables.h"

#include <string.h>

static int64_t bytes_of(const prograd *self, int sums) { /* of all sums of a shard */
  const prograd_entry *entry = self->program->entries + sums;
  int64_t bytes = 0;
  for (int64_t i = 0; i < entry->fetch_count; i++) bytes += self->program->places[entry->fetches + i].bytes;
  return bytes;
}

int64_t prograd_shards_bytes(const prograd *self, int sums, int shards) {
  return (2 * shards + 1) * bytes_of(self, sums) + 64;
}

static void add(int64_t kind, unsigned char *one, const unsigned char *other, int64_t bytes) {
#define ADD(type) \
  for (int64_t i = 0; i < bytes; i += (int64_t)sizeof(type)) { \
    type a, b; \
    memcpy(&a, one + i, sizeof a), memcpy(&b, other + i, sizeof b); \
    a = (type)(a + b), memcpy(one + i, &a, sizeof a); \
  }
  switch (kind) {
  case PROGRAD_FLOAT: ADD(float) break;
  case PROGRAD_DOUBLE: ADD(double) break;
  case PROGRAD_INT32: ADD(uint32_t) break;
  case PROGRAD_INT64: ADD(uint64_t) break;
  default: ADD(unsigned char)
  }
#undef ADD
}

/* Add the sums of the shards from `first` to `stop` into those of the first, in a balanced tree. */
static void add_up(const prograd *self, int sums, unsigned char *all, int first, int stop) {
  const prograd_entry *entry = self->program->entries + sums;
  int64_t each = bytes_of(self, sums), at = 0;
  int left = 1; /* the left part has the largest power of two of shards that is smaller than their number */
  if (stop - first < 2) return;
  while (2 * left < stop - first) left *= 2;
  add_up(self, sums, all, first, first + left);
  add_up(self, sums, all, first + left, stop);
  for (int64_t i = 0; i < entry->fetch_count; i++) {
    const prograd_place *sum = self->program->places + entry->fetches + i;
    add(sum->kind, all + first * each + at, all + (first + left) * each + at, sum->bytes);
    at += sum->bytes;
  }
}

int prograd_step_in_shards(prograd *self, int sums, int shards, const void *const *feeds, void *const *fetches,
                           int rank, int ranks, void *room, prograd_gather *gather, void *context) {
  const prograd_entry *entry = self->program->entries + sums, *update = entry + 1;
  const prograd_place *feed = self->program->places + entry->feeds, *sum = self->program->places + entry->fetches;
  unsigned char *mine = (unsigned char *)(((uintptr_t)room + 63) & ~(uintptr_t)63);
  const void *given[PROGRAD_MOST_SUMS];
  void *found[PROGRAD_MOST_SUMS];
  int64_t each = bytes_of(self, sums), at = 0, number, given_rows = entry->feed_count;
  unsigned char *all = mine + shards * each;
  if (ranks < 1 || shards % ranks)
    return prograd_fail(self, PROGRAD_NO_ROWS, prograd_text(self, entry->name),
                        ": the number of shards is no multiple of the number of processes");
  if (rank < 0 || rank >= ranks)
    return prograd_fail(self, PROGRAD_NO_ROWS, prograd_text(self, entry->name),
                        ": the number of this process is not from 0 to that of all less one");
  if (entry->fetch_count > PROGRAD_MOST_SUMS || entry->feed_count > PROGRAD_MOST_SUMS)
    return prograd_fail(self, PROGRAD_NO_ROWS, prograd_text(self, entry->name), ": a shard has more than 1024 sums");
  if (given_rows && prograd_same(prograd_text(self, feed[given_rows - 1].name), "number of the shard"))
    given[--given_rows] = &number; /* of masks of all rows, those of a shard are taken */
  for (int shard = 0; shard < shards / ranks; shard++) { /* those of this process follow each other */
    number = rank * (shards / ranks) + shard;
    for (int64_t i = 0; i < given_rows; i++)
      given[i] = (const unsigned char *)feeds[i] + (feed[i].by_row ? shard * feed[i].bytes : 0);
    at = shard * each;
    for (int64_t i = 0; i < entry->fetch_count; at += sum[i++].bytes) found[i] = mine + at;
    int error = prograd_step(self, sums, given, found);
    if (error) return error;
  }
  if (gather(mine, (size_t)(shards / ranks * each), all, context))
    return prograd_fail(self, PROGRAD_NO_ROWS, prograd_text(self, entry->name), ": the processes cannot exchange sums");
  add_up(self, sums, all, 0, shards);
  at = 0;
  for (int64_t i = 0; i < update->feed_count; at += sum[i++].bytes) given[i] = all + at;
  return prograd_step(self, sums + 1, given, fetches);
}
