#include "model/model_fingerprint.h"

#include <algorithm>
#include <utility>

#include "base/json_limits.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

Status add_companions(const ModelFile& file, FingerprintBuilder& builder) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    TRY_ASSIGN(const auto text, file.companion(name));
    if (text) builder.add(name, *text);
  }
  return {};
}

// If all layers are alike, adds the numbers of one layer only.
void add_layout(const KvLayout& layout, FingerprintBuilder& builder) {
  const bool alike = layout.layers_are_alike();
  builder.add("kv layout", layout.n_layers());
  const size_t n_hashed_layers = alike ? std::min<size_t>(1, layout.n_layers()) : layout.n_layers();
  for (const KvLayer& layer : layout.layers().first(n_hashed_layers)) {
    for (const size_t n : {layer.row.n_kv_heads, layer.row.head_dim, layer.block.bytes}) builder.add("kv layout", n);
    if (layer.block.is_latent()) builder.add("latent rows", layer.row.latent_dim);
    if (!layout.has_mixed_formats()) continue;
    for (const KvNumberFormat part : {layer.block.keys(), layer.block.values()}) {
      builder.add("kv format", static_cast<uint64_t>(part));
    }
  }
  // A page of a layout with windows has the rows of other layers first. A window as long as the context is not counted.
  if (layout.window() > 0) {
    for (const KvLayer& layer : layout.layers()) builder.add("window", uint64_t{layer.part == PagePart::kWindow});
  }
  for (size_t i = 0; i < layout.n_states(); ++i) {
    for (const size_t n : {layout.state(i).floats, layout.state(i).row_floats}) builder.add("state layout", n);
  }
}

}  // namespace

std::shared_ptr<LaterDigest> start_digest(std::shared_ptr<const ModelFile> file) {
  return std::make_shared<LaterDigest>(
      [file = std::move(file)](const std::stop_token& stop) { return file->digest(stop); });
}

Result<LaterFingerprint> fingerprint_model(const ModelFile& file, const FingerprintSettings& settings,
                                           std::shared_ptr<LaterDigest> files) {
  FingerprintBuilder builder;
  builder.add("numerics version", uint64_t{kNumericsVersion});
  builder.add("numerics", static_cast<uint64_t>(settings.numerics));
  for (const RopeRule& rule : settings.ropes) {
    builder.add("short factors", uint64_t{uses_short_factors(rule, settings.max_seq_len)});
  }
  builder.add("kv type", static_cast<uint64_t>(settings.layout.dtype()));
  add_layout(settings.layout, builder);
  if (file.config_json() != nullptr) builder.add("config.json", json_to_string(*file.config_json()));
  if (file.container() == Container::kSafetensors) TRY(add_companions(file, builder));
  return LaterFingerprint(builder.finish(kNumericsVersion), std::move(files));
}

}  // namespace ibid
