// Fingerprint of a model: engines with equal fingerprints compute bit-identical keys and values for equal tokens, on
// any machine. It covers everything that can change a bit: all weights, the configuration, the stored tokenizer and
// template, the numerics (arithmetic) and their version, the KV layout. It does not cover threads, chunk size and
// instruction set, which change no bit (docs/numerics.md).
#pragma once

#include "base/result.h"
#include "cache/pages/kv_layout.h"
#include "cache/tier/kv_record.h"
#include "model/config/model_options.h"

namespace ibid {

class ModelFile;

// Increment this with every change of the arithmetic that changes a bit of a key, value or logit, and add the reason to
// docs/numerics.md, "Versions". Every stored KV file records it.
inline constexpr uint32_t kNumericsVersion = 3;

// Computes the fingerprint, for which it reads all weights once. max_seq_len: the engine's context, because RoPE rules
// may depend on it. Errors: those of reading the file and of ThreadTeam::create().
Result<Fingerprint> fingerprint_model(const ModelFile& file, const ModelOptions& options, size_t max_seq_len,
                                      const KvLayout& layout);

}  // namespace ibid
