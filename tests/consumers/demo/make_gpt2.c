/* Writes a checkpoint with GPT-2's real layout: 160 F32 tensors, 548,090,880 data bytes, all of them numbers that
 * demo.c can foretell.
 *
 * Value j of the tensor at place t is pattern((j + 977 t) mod 65536): never zero, exact in F32, and different in every
 * tensor, so that a reader which is off by one value or one tensor is found out. The tensors are declared in no
 * particular order and come in pieces of one turn of the pattern: no tensor is ever whole in memory.
 * usage: make_gpt2 FILE
 * SPDX-License-Identifier: Apache-2.0 */
#include <safetensors/safetensors.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kPeriod = 65536, kStep = 977, kTensors = 160, kBlocks = 12 };

struct layout {
  const char *name;
  size_t rank;
  uint64_t shape[4];
};

struct tensor {
  char name[40];
  size_t index;
  uint64_t bytes;
};

static const struct layout kTop[] = {{"wte.weight", 2, {50257, 768}},
                                     {"wpe.weight", 2, {1024, 768}},
                                     {"ln_f.weight", 1, {768}},
                                     {"ln_f.bias", 1, {768}}};

static const struct layout kBlock[] = {{"ln_1.weight", 1, {768}},
                                       {"ln_1.bias", 1, {768}},
                                       {"attn.bias", 4, {1, 1, 1024, 1024}},
                                       {"attn.c_attn.weight", 2, {768, 2304}},
                                       {"attn.c_attn.bias", 1, {2304}},
                                       {"attn.c_proj.weight", 2, {768, 768}},
                                       {"attn.c_proj.bias", 1, {768}},
                                       {"ln_2.weight", 1, {768}},
                                       {"ln_2.bias", 1, {768}},
                                       {"mlp.c_fc.weight", 2, {768, 3072}},
                                       {"mlp.c_fc.bias", 1, {3072}},
                                       {"mlp.c_proj.weight", 2, {3072, 768}},
                                       {"mlp.c_proj.bias", 1, {768}}};

static float pattern[2 * kPeriod]; /* two periods, so every period is contiguous */
static struct tensor tensors[kTensors];
static size_t count;

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

static st_status add(st_writer *writer, const struct layout *layout, st_error *error) {
  struct tensor *tensor = &tensors[count++];
  tensor->bytes = sizeof(float);
  for (size_t i = 0; i < layout->rank; ++i) tensor->bytes *= layout->shape[i];
  return st_writer_add(writer, tensor->name, ST_F32, layout->rank, layout->shape, NULL, &tensor->index, error);
}

static st_status declare(st_writer *writer, st_error *error) {
  st_status status = st_writer_set_metadata(writer, "format", "pt", error);
  for (size_t i = 0; status == ST_OK && i < sizeof kTop / sizeof *kTop; ++i) {
    snprintf(tensors[count].name, sizeof tensors[count].name, "%s", kTop[i].name);
    status = add(writer, &kTop[i], error);
  }
  for (unsigned block = 0; block < kBlocks; ++block) {
    for (size_t i = 0; status == ST_OK && i < sizeof kBlock / sizeof *kBlock; ++i) {
      snprintf(tensors[count].name, sizeof tensors[count].name, "h.%u.%s", block, kBlock[i].name);
      status = add(writer, &kBlock[i], error);
    }
  }
  return status;
}

static st_status put(st_writer *writer, const struct tensor *tensor, size_t place, st_error *error) {
  const char *turned = (const char *)(pattern + place * kStep % kPeriod);
  const uint64_t turn = kPeriod * sizeof(float);
  st_status status = ST_OK;
  for (uint64_t at = 0; status == ST_OK && at < tensor->bytes; at += turn) {
    const uint64_t left = tensor->bytes - at;
    status = st_writer_put(writer, tensor->index, at, turned, (size_t)(left < turn ? left : turn), error);
  }
  return status;
}

int main(int argc, char **argv) {
  st_error error = ST_INIT(st_error);
  st_writer *writer = NULL;
  if (argc != 2) return 2;
  for (int i = 0; i < 2 * kPeriod; ++i) pattern[i] = (float)(2 * (i % kPeriod) + 1) / kPeriod - 1.0F;

  st_status status = st_writer_new(&writer, &error);
  if (status == ST_OK) status = declare(writer, &error);
  if (status == ST_OK) status = st_writer_begin(writer, argv[1], NULL, &error);
  qsort(tensors, count, sizeof *tensors, by_name); /* the place that the writer gives them, all being F32 */
  for (size_t place = 0; status == ST_OK && place < count; ++place) {
    status = put(writer, &tensors[place], place, &error);
  }
  if (status == ST_OK) status = st_writer_finish(writer, &error);
  if (status != ST_OK) fprintf(stderr, "%s: %s\n", st_status_name(status), error.message);
  st_writer_free(writer);
  return status == ST_OK ? 0 : 1;
}
