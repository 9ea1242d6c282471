#include "model/model_fingerprint.h"

#include <xxhash.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/json_limits.h"
#include "base/parallel.h"
#include "weights/gguf_reader.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

// Number of bytes that are hashed as one unit. Another number would change all fingerprints.
constexpr size_t kPieceBytes = size_t{4} << 20;

// Returns XXH3 of each piece of each tensor. SHA-256 is not needed: forged weights harm only the user who forged them.
Result<std::vector<uint64_t>> hash_weights(const ModelFile& file, int n_threads) {
  std::vector<std::span<const std::byte>> pieces;
  for (const std::string& name : file.tensor_names()) {
    const TensorView& tensor = *file.find_tensor(name);
    const auto parts = tensor.source == nullptr ? std::vector{tensor.data} : tensor.source->parts();
    for (std::span<const std::byte> rest : parts) {
      while (!rest.empty()) {
        const size_t n = std::min(rest.size(), kPieceBytes);
        pieces.push_back(rest.first(n));
        rest = rest.subspan(n);
      }
    }
  }
  std::vector<uint64_t> hashes(pieces.size());
  TRY_ASSIGN(const std::unique_ptr<ThreadTeam> team, ThreadTeam::create(n_threads));
  team->run([&](const Worker& worker) {
    const Range own = worker.share(pieces.size());
    for (size_t i = own.begin; i < own.end; ++i) hashes[i] = XXH3_64bits(pieces[i].data(), pieces[i].size());
  });
  return hashes;
}

// Adds the full values, because describe_metadata() shortens long arrays, which may differ only in the omitted part.
void add_gguf_metadata(const ModelFile& file, FingerprintBuilder& builder) {
  for (const GgufEntry& entry : gguf_entries(file)) {
    builder.add(entry.key, static_cast<uint64_t>(entry.type));
    builder.add(entry.key, static_cast<uint64_t>(entry.element_type));
    builder.add(entry.key, entry.payload);
  }
}

Status add_companions(const ModelFile& file, FingerprintBuilder& builder) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    TRY_ASSIGN(const auto text, file.companion(name));
    if (text) builder.add(name, *text);
  }
  return {};
}

// If all layers are alike, adds the numbers of one layer only, as older versions did, so that their KV stays valid.
void add_layout(const KvLayout& layout, FingerprintBuilder& builder) {
  const bool alike = layout.layers_are_alike();
  builder.add("kv layout", layout.n_layers());
  // Older versions stored INT8 rows unrotated, so these must have another fingerprint.
  if (is_coded(KvRowFormat(layout.dtype()).keys)) builder.add("kv rows", "rotated");
  const size_t n_hashed_layers = alike ? std::min<size_t>(1, layout.n_layers()) : layout.n_layers();
  for (const KvLayer& layer : layout.layers().first(n_hashed_layers)) {
    for (const size_t n : {layer.row.n_kv_heads, layer.row.head_dim, layer.block.bytes}) builder.add("kv layout", n);
    if (layer.block.is_latent()) builder.add("latent rows", layer.row.latent_dim);
    if (!layout.has_mixed_formats()) continue;
    for (const KvNumberFormat part : {layer.block.keys(), layer.block.values()}) {
      builder.add("kv format", static_cast<uint64_t>(part));
    }
  }
  for (size_t i = 0; i < layout.n_states(); ++i) {
    for (const size_t n : {layout.state(i).floats, layout.state(i).row_floats}) builder.add("state layout", n);
  }
}

}  // namespace

Result<Fingerprint> fingerprint_model(const ModelFile& file, const ModelOptions& options, size_t max_seq_len,
                                      const KvLayout& layout) {
  FingerprintBuilder builder;
  builder.add("numerics version", uint64_t{kNumericsVersion});
  builder.add("numerics", static_cast<uint64_t>(options.numerics));
  builder.add("context", max_seq_len);
  builder.add("kv type", static_cast<uint64_t>(layout.dtype()));
  add_layout(layout, builder);
  if (file.container() == Container::kGguf) add_gguf_metadata(file, builder);
  if (file.config_json() != nullptr) builder.add("config.json", json_to_string(*file.config_json()));
  TRY(add_companions(file, builder));
  for (const std::string& name : file.tensor_names()) {
    const TensorView& tensor = *file.find_tensor(name);
    builder.add(name, static_cast<uint64_t>(tensor.dtype));
    builder.add(name, tensor.shape.to_string());
  }
  TRY_ASSIGN(const std::vector<uint64_t> hashes, hash_weights(file, options.n_threads));
  builder.add("weights", std::as_bytes(std::span(hashes)));
  TRY(file.check_unchanged());
  return builder.finish(kNumericsVersion);
}

}  // namespace ibid
