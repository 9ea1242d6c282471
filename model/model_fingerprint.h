// Fingerprint of a model: engines with equal fingerprints compute bit-identical keys and values for equal tokens, on
// any machine. It covers everything that can change a bit: the files of the weights, config.json, the tokenizer and the
// template beside them, the numerics (arithmetic) and their version, the KV layout, and what a RoPE rule reads of the
// configured context. It does not cover threads, chunk size, instruction set, and the context itself, which change no
// bit (docs/numerics.md).
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "cache/pages/kv_layout.h"
#include "cache/tier/later_fingerprint.h"
#include "model/config/config.h"
#include "model/config/model_options.h"

namespace ibid {

class ModelFile;

// Increment this with every change of the arithmetic that changes a bit of a key, value or logit, and add the reason to
// docs/numerics.md, "Versions". Every stored KV file records it.
inline constexpr uint32_t kNumericsVersion = 3;

// Settings of an engine on which bits of keys and values depend.
struct FingerprintSettings {
  Numerics numerics = Numerics::kExact;
  std::span<const RopeRule> ropes;  // those of the model's configuration
  size_t max_seq_len = 0;           // the configured context
  const KvLayout& layout;
};

// Starts a thread that reads all weights once (ModelFile::digest()). Throws std::system_error if no thread can be
// started.
std::shared_ptr<LaterDigest> start_digest(std::shared_ptr<const ModelFile> file);

// files: start_digest(file). Errors: those of reading the texts beside the weights.
Result<LaterFingerprint> fingerprint_model(const ModelFile& file, const FingerprintSettings& settings,
                                           std::shared_ptr<LaterDigest> files);

}  // namespace ibid
