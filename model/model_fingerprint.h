// The Fingerprint of a model says which bits it computes: two engines with equal fingerprints compute equal keys
// and values for equal ids, whatever machine they run on. It covers all weights, the configuration, the tokenizer
// and the template as they are in the file, the numerics and their version, and the layout of keys and values. It
// does not cover what changes no bit (docs/numerics.md): threads, chunks, the instruction set.
#pragma once

#include "base/result.h"
#include "cache/pages/kv_layout.h"
#include "cache/tier/kv_record.h"
#include "model/config/model_options.h"

namespace ibid {

class ModelFile;

// Raise it with every change of the arithmetic that changes a bit of a key, value or logit, and add a line that says
// why to docs/numerics.md, "Versions". Every file that is kept names it.
inline constexpr uint32_t kNumericsVersion = 3;

// Reads all weights once, at the speed of memory if the system has them in memory. max_seq_len: the engine's
// context, on which rules of positions may depend. Errors: those of reading the file and of ThreadTeam::create().
Result<Fingerprint> fingerprint_model(const ModelFile& file, const ModelOptions& options, size_t max_seq_len,
                                      const KvLayout& layout);

}  // namespace ibid
