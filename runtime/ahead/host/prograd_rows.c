/* The rows of a run: their order in an epoch, which follows from the seed, and the feeds of a step. */
#include "prograd_run.h"

#include <stdio.h>
#include <string.h>

enum { BLOCKS_PER_WINDOW = 64 };

/* Philox4x32-10: four words of a stream of random bits, see docs/format.md. */
static void random_words(uint64_t seed, uint64_t step, uint32_t block, uint32_t c[4]) {
  uint32_t low = (uint32_t)seed, high = (uint32_t)(seed >> 32);
  c[0] = block, c[1] = 0xFFFFFFFFu /* the stream of rows */, c[2] = (uint32_t)step, c[3] = (uint32_t)(step >> 32);
  for (int i = 0; i < 10; i++, low += 0x9E3779B9u, high += 0xBB67AE85u) {
    uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
    c[0] = (uint32_t)(b >> 32) ^ c[1] ^ low;
    c[1] = (uint32_t)b;
    c[2] = (uint32_t)(a >> 32) ^ c[3] ^ high;
    c[3] = (uint32_t)a;
  }
}

/* True if a number belongs behind another: by the keys, equal ones by the lower number. */
static int is_behind(const uint64_t *keys, int64_t a, int64_t b) {
  return keys[a] > keys[b] || (keys[a] == keys[b] && a > b);
}

static void swap(int64_t *one, int64_t *other) {
  int64_t kept = *one;
  *one = *other;
  *other = kept;
}

/* Put the numbers below `count` in the order of an epoch, by a heap sort. */
static void permute(const prograd_course *course, uint64_t epoch, int64_t count, int64_t *order) {
  uint64_t seed = (uint64_t) * (const int64_t *)prograd_state(course->self, "seed", NULL), *keys = course->keys;
  for (int64_t i = 0; i < count; i++) {
    uint32_t words[4];
    random_words(seed, epoch, (uint32_t)(i / 2), words);
    keys[i] = (uint64_t)words[2 * (i & 1)] << 32 | words[2 * (i & 1) + 1];
    order[i] = i;
  }
  for (int64_t end = count, start = count / 2; end > 1;) {
    int64_t root = 0;
    if (start > 0) root = --start;
    else swap(order, order + --end);
    for (int64_t child; (child = 2 * root + 1) < end; root = child) {
      if (child + 1 < end && is_behind(keys, order[child + 1], order[child])) child++;
      if (!is_behind(keys, order[child], order[root])) break;
      swap(order + root, order + child);
    }
  }
}

/* Shuffle blocks of neighbours, then the rows of each window of blocks. */
static void shuffle_windows(const prograd_course *course, uint64_t epoch, int64_t count) {
  int64_t block = course->run->window / BLOCKS_PER_WINDOW, at = 0;
  block = block < 1 ? 1 : block;
  int64_t blocks = (count + block - 1) / block, *order = course->order;
  permute(course, epoch, blocks, course->turns);
  for (int64_t first = 0, window = 1; first < blocks; first += BLOCKS_PER_WINDOW, window++) {
    int64_t start = at;
    for (int64_t i = first; i < first + BLOCKS_PER_WINDOW && i < blocks; i++)
      for (int64_t row = course->turns[i] * block; row < count && row < (course->turns[i] + 1) * block; row++)
        course->other[at++] = row;
    permute(course, epoch + ((uint64_t)window << 32), at - start, order + start);
    for (int64_t i = start; i < at; i++) order[i] = course->other[start + order[i]];
  }
}

int prograd_is_ragged(const prograd *self, int64_t entry, const prograd_rows *rows) {
  for (int64_t i = 0; rows->offsets && i < self->program->entries[entry].feed_count; i++)
    if (rows->offsets[i]) return 1;
  return 0;
}

/* Return the number of lengths of rows that the steps of an entry have. */
int64_t prograd_lengths(const prograd *self, int64_t first, int64_t count) {
  return count ? self->program->entries[first].length + 1 : 0; /* the longest come first */
}

/* Return the step of an entry with the most rows of a length. */
int64_t prograd_entry_of(const prograd *self, int64_t first, int64_t count, int64_t length) {
  int64_t entry = first;
  while (entry + 1 < first + count && self->program->entries[entry].length != length) entry++;
  return entry;
}

static int64_t number_of(const prograd_rows *rows, int64_t row) { return rows->numbers ? rows->numbers[row] : row; }

static int64_t length_of(const prograd_rows *rows, int64_t feed, int64_t number) {
  return rows->offsets[feed][number + 1] - rows->offsets[feed][number];
}

/* Return the length of steps that hold a row, the shortest that does; the number of lengths if none does. */
int64_t prograd_length_at(const prograd_course *course, int64_t first, int64_t count, const prograd_rows *rows,
                          int64_t row) {
  const prograd_program *program = course->self->program;
  int64_t lengths = prograd_lengths(course->self, first, count), number = number_of(rows, row), length = 0;
  if (!prograd_is_ragged(course->self, first, rows)) return lengths - 1;
  for (int fits = 0; length < lengths && !fits; length += !fits) {
    const prograd_entry *entry = program->entries + prograd_entry_of(course->self, first, count, length);
    fits = 1;
    for (int64_t i = 0; i < entry->feed_count; i++)
      if (rows->offsets[i] && length_of(rows, i, number) > program->places[entry->feeds + i].width) fits = 0;
  }
  return length;
}

static int too_long(prograd_course *course, int64_t first, const prograd_rows *rows, int64_t row) {
  const prograd_entry *entry = course->self->program->entries + first;
  const prograd_place *feed = course->self->program->places + entry->feeds;
  int64_t number = number_of(rows, row), i = 0;
  while (i + 1 < entry->feed_count && !(rows->offsets[i] && length_of(rows, i, number) > feed[i].width)) i++;
  char why[160];
  snprintf(why, sizeof why, ": row %lld has %lld elements, and the longest that the entry takes is %lld",
           (long long)number, (long long)length_of(rows, i, number), (long long)feed[i].width);
  return prograd_fail(course->self, PROGRAD_NO_ROWS, prograd_text(course->self, feed[i].name), why);
}

/* Put the rows of the order by their lengths, the shortest first; rows of a length keep their order. */
int prograd_by_length(prograd_course *course, int64_t first, int64_t count, const prograd_rows *rows) {
  int64_t lengths = prograd_lengths(course->self, first, count), at = 0;
  for (int64_t i = 0; i < rows->count; i++)
    if (prograd_length_at(course, first, count, rows, course->order[i]) == lengths)
      return too_long(course, first, rows, course->order[i]);
  for (int64_t length = 0; length < lengths; length++)
    for (int64_t i = 0; i < rows->count; i++)
      if (prograd_length_at(course, first, count, rows, course->order[i]) == length)
        course->other[at++] = course->order[i];
  memcpy(course->order, course->other, (size_t)at * sizeof *course->order);
  return PROGRAD_OK;
}

/* Put the rows to train on in the order of an epoch; that before shuffling is of epoch -1. */
int prograd_order(prograd_course *course, int64_t epoch) {
  const prograd_run_table *run = course->run;
  int64_t count = course->train->count, batch = course->self->program->entries[run->train].rows;
  int is_ragged = prograd_is_ragged(course->self, run->train, course->train), is_shuffled = epoch >= 0 && run->shuffle;
  if (is_shuffled && run->window && !is_ragged) shuffle_windows(course, (uint64_t)epoch, count);
  else if (is_shuffled) permute(course, (uint64_t)epoch, count, course->order);
  else
    for (int64_t i = 0; i < count; i++) course->order[i] = i;
  int error = is_ragged ? prograd_by_length(course, run->train, run->train_count, course->train) : PROGRAD_OK;
  if (error || !is_ragged || !is_shuffled) return error;
  permute(course, (uint64_t)epoch + ((uint64_t)1 << 62), count / batch, course->turns);
  memcpy(course->other, course->order, (size_t)count * sizeof *course->order);
  for (int64_t i = 0; i < count / batch; i++)
    memcpy(course->order + i * batch, course->other + course->turns[i] * batch, (size_t)batch * sizeof *course->order);
  return PROGRAD_OK;
}

/* Fill the feeds of a step with the rows at positions from `first` on. */
void prograd_fill(const prograd_course *course, int64_t number, const prograd_rows *rows, int64_t first) {
  const prograd_entry *entry = course->self->program->entries + number;
  const prograd_place *feed = course->self->program->places + entry->feeds;
  for (int64_t i = 0; i < entry->feed_count; i++) {
    int64_t bytes = feed[i].by_row ? feed[i].bytes / entry->rows : feed[i].bytes, element = bytes / feed[i].width;
    for (int64_t j = 0; j < (feed[i].by_row ? entry->rows : 1); j++) {
      unsigned char *to = course->feeds[i] + j * bytes;
      int64_t row = feed[i].by_row ? number_of(rows, course->order[first + j]) : 0, length = feed[i].width;
      int is_ragged = rows->offsets && rows->offsets[i];
      const unsigned char *from = (const unsigned char *)rows->columns[i] +
                                  (is_ragged ? rows->offsets[i][row] * element : row * bytes);
      if (is_ragged) length = length_of(rows, i, row);
      memcpy(to, from, (size_t)(length * element));
      for (; length < feed[i].width; length++) /* padding: an item of zeros, or that of the caller */
        for (int64_t k = 0; k < element; k += feed[i].item) {
          unsigned char *item = to + length * element + k;
          if (rows->padding && rows->padding[i]) memcpy(item, rows->padding[i], (size_t)feed[i].item);
          else memset(item, 0, (size_t)feed[i].item);
        }
    }
  }
}
