/* The fingerprint of rows, by which a run that goes on knows those that it began with; see docs/format.md. */
#include "prograd_checkpoint.h"

#include <string.h>

enum { SAMPLED_BLOCKS = 64, MOST_WHOLE_BYTES = 16 << 20 };

typedef struct {
  prograd_hash hash;
  const prograd_course *course;
  const prograd_entry *entry;
  const prograd_rows *rows;
} print;

static int64_t longest(const print *f, int64_t feed) { /* extent of axis 1 in the data */
  const int64_t *offsets = f->rows->offsets ? f->rows->offsets[feed] : NULL;
  int64_t found = 0;
  if (!offsets) return f->course->self->program->places[f->entry->feeds + feed].width;
  for (int64_t i = 0; i < (f->rows->total ? f->rows->total : f->rows->count); i++)
    if (offsets[i + 1] - offsets[i] > found) found = offsets[i + 1] - offsets[i];
  return found;
}

static void add_row(print *f, int64_t feed, int64_t row, int64_t width) {
  const prograd_place *place = f->course->self->program->places + f->entry->feeds + feed;
  int64_t element = place->bytes / f->entry->rows / place->width, length = width, start = row * width;
  if (f->rows->numbers) row = f->rows->numbers[row], start = row * width;
  if (f->rows->offsets && f->rows->offsets[feed])
    start = f->rows->offsets[feed][row], length = f->rows->offsets[feed][row + 1] - start;
  const unsigned char *column = f->rows->columns[feed];
  prograd_hash_add(&f->hash, column + start * element, (size_t)(length * element));
  for (int64_t i = length * element; i < width * element; i += place->item) {
    static const unsigned char zeros[8];
    const void *padding = f->rows->padding && f->rows->padding[feed] ? f->rows->padding[feed] : zeros;
    prograd_hash_add(&f->hash, padding, (size_t)place->item);
  }
}

/* Return the feed whose name comes next: those that count rows first; -1 behind the last. */
static int64_t next_feed(const print *f, int64_t last) {
  const prograd *self = f->course->self;
  const prograd_place *feeds = self->program->places + f->entry->feeds;
  int64_t found = -1;
  for (int64_t i = 0; i < f->entry->feed_count; i++) {
#define IS_BEFORE(a, b) (feeds[a].by_row != feeds[b].by_row ? feeds[a].by_row : \
                         strcmp(prograd_text(self, feeds[a].name), prograd_text(self, feeds[b].name)) < 0)
    if ((last < 0 || IS_BEFORE(last, i)) && (found < 0 || IS_BEFORE(i, found))) found = i;
  }
  return found;
}

void prograd_fingerprint(const prograd_course *course, int64_t entry, const prograd_rows *rows, int is_shuffled,
                         char digits[65]) {
  print f = {.course = course, .entry = course->self->program->entries + entry, .rows = rows};
  const prograd_place *feeds = course->self->program->places + f.entry->feeds;
  char text[80];
  int64_t nbytes = 0, blocks, count, widths[MOST_FETCHES];
  prograd_hash_begin(&f.hash);
  snprintf(text, sizeof text, "%lld rows, shuffled: %s", (long long)rows->count, is_shuffled ? "True" : "False");
  prograd_hash_add(&f.hash, text, strlen(text));
  for (int64_t i = -1; (i = next_feed(&f, i)) >= 0;) {
    const char *described = prograd_text(course->self, feeds[i].described), *gap = strchr(described, 1);
    widths[i] = longest(&f, i);
    if (feeds[i].by_row) nbytes += feeds[i].bytes / f.entry->rows / feeds[i].width * widths[i];
    prograd_hash_add(&f.hash, described, gap ? (size_t)(gap - described) : strlen(described));
    if (!gap) continue;
    snprintf(text, sizeof text, "%lld", (long long)widths[i]);
    prograd_hash_add(&f.hash, text, strlen(text)), prograd_hash_add(&f.hash, gap + 1, strlen(gap + 1));
  }
  for (int64_t i = -1; (i = next_feed(&f, i)) >= 0;)
    if (!feeds[i].by_row) prograd_hash_add(&f.hash, rows->columns[i], (size_t)feeds[i].bytes);
  count = MOST_WHOLE_BYTES / SAMPLED_BLOCKS / (nbytes > 1 ? nbytes : 1);
  count = count < 1 ? 1 : count;
  blocks = rows->count <= count * SAMPLED_BLOCKS ? (rows->count + count - 1) / count : SAMPLED_BLOCKS;
  for (int64_t block = 0; block < blocks; block++) {
    int64_t start = blocks < SAMPLED_BLOCKS || rows->count <= count * SAMPLED_BLOCKS
                        ? block * count : block * (rows->count - count) / (SAMPLED_BLOCKS - 1);
    for (int64_t i = -1; (i = next_feed(&f, i)) >= 0;)
      for (int64_t row = start; feeds[i].by_row && row < start + count && row < rows->count; row++)
        add_row(&f, i, course->order[row], widths[i]);
  }
  prograd_hash_end(&f.hash, digits);
}
