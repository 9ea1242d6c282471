// Which bits a model computes, as a Fingerprint: two engines whose fingerprints are equal compute equal keys and
// values for equal ids, whatever machine they run on. It covers all weights, the configuration, the tokenizer and the
// template as they are in the file, the numerics and their version, and the layout of keys and values. It does not
// cover what the first law says makes no difference: threads, chunks, the instruction set.
#pragma once

#include "base/result.h"
#include "cache/fingerprint.h"
#include "cache/kv_layout.h"
#include "model/model_options.h"

namespace ibid {

class ModelFile;

// Raised whenever a change of the arithmetic (docs/numerics.md) changes any bit of any key, value or logit.
inline constexpr uint64_t kNumericsVersion = 1;

// Reads all weights once, at the speed of memory where the system has them. max_seq_len: the engine's context, which
// rules of positions may depend on. Errors: those of reading the file and of ThreadTeam::create().
Result<Fingerprint> fingerprint_model(const ModelFile& file, const ModelOptions& options, size_t max_seq_len,
                                      const KvLayout& layout);

}  // namespace ibid
