#include "model/architectures/architectures.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/json_members.h"
#include "base/text.h"
#include "model/architectures/hyperparameters.h"
#include "model/architectures/keys.h"
#include "weights/model_file.h"
#include "weights/model_json.h"

namespace ibid {

namespace {

constexpr const char* kModulesName = "modules.json";

// Names of poolings, indexed by GGUF's number (enum llama_pooling_type).
constexpr std::array<std::string_view, 5> kGgufPoolings = {"none", "mean", "cls", "last", "rank"};

Status unsupported_pooling(const ModelFile& file, const std::string& what) {
  return {ErrorCode::kUnsupported, file.path() + ": " + what + "; supported pooling: mean, last token"};
}

std::optional<Pooling> pooling_named(std::string_view name) {
  for (const Pooling pooling : {Pooling::kMean, Pooling::kLast}) {
    if (pooling_name(pooling) == name) return pooling;
  }
  return {};
}

Status refuse_later_positions(const Hyperparameters& file) {
  TRY_ASSIGN(const bool causal, file.flag(keys::kCausal, true));
  if (causal) return {};
  return {ErrorCode::kUnsupported, file.file().path() + ": " + file.key_of(keys::kCausal) +
                                       " is false (bidirectional attention); only decoder models are supported"};
}

Result<std::optional<Pooling>> gguf_pooling(const Hyperparameters& file) {
  TRY_ASSIGN(const size_t number, file.integer(keys::kPooling, 0, kGgufPoolings.size() - 1, size_t{0}));
  const std::optional<Pooling> pooling = pooling_named(kGgufPoolings[number]);
  if (number == 0 || pooling) return pooling;
  return unsupported_pooling(file.file(), file.key_of(keys::kPooling) + " is " + std::to_string(number) + " (" +
                                              std::string(kGgufPoolings[number]) + ")");
}

// Returns a string member of an object; empty if it is missing.
std::string text_of(const Json& object, const char* key) {
  const std::string* text = text_member(object, key);
  return text == nullptr ? std::string() : *text;
}

// Removes the suffixes of mode names: "mean" for "mean_tokens", "last" for "lasttoken".
std::string plain_mode(const std::string& mode) {
  if (mode == "mean_tokens") return "mean";
  return mode == "lasttoken" ? "last" : mode;
}

// Returns the pooling modes in the config.json of a pooling module: older files have a flag pooling_mode_... per mode,
// newer ones "pooling_mode".
std::vector<std::string> modes_of(const Json& config) {
  constexpr std::string_view kMode = "pooling_mode";
  std::vector<std::string> modes;
  const auto add = [&](const std::string& mode) {
    if (std::ranges::find(modes, plain_mode(mode)) == modes.end()) modes.push_back(plain_mode(mode));
  };
  for (const auto& [key, value] : config.items()) {
    if (key == kMode && value.is_string()) add(value.get<std::string>());
    if (key == kMode && value.is_array()) {
      for (const Json& one : value) add(one.is_string() ? one.get<std::string>() : json_to_string(one));
    }
    const bool is_flag = key.starts_with("pooling_mode_") && value.is_boolean();
    if (is_flag && value.get<bool>()) add(key.substr(kMode.size() + 1));
  }
  return modes;
}

Result<std::optional<Pooling>> pooling_of_module(const ModelFile& file, const std::string& folder) {
  const std::string name = folder + "/config.json";
  TRY_ASSIGN(const std::optional<std::string> text, file.companion(name));
  if (!text) {
    return {ErrorCode::kMissingKey, file.path() + ": " + kModulesName + " names " + in_quotes(folder) +
                                        " as the pooling folder, but " + in_quotes(name) + " is missing"};
  }
  TRY_ASSIGN(const Json config, parse_model_json(*text, file.path() + "/" + name));
  if (!config.is_object()) return {ErrorCode::kBadHeader, file.path() + "/" + name + ": is not a JSON object"};
  const std::vector<std::string> modes = modes_of(config);
  const std::optional<Pooling> pooling = modes.size() == 1 ? pooling_named(modes.front()) : std::nullopt;
  if (pooling) return pooling;
  std::string all;
  for (const std::string& mode : modes) append_part(all, in_quotes(mode), " and ");
  return unsupported_pooling(file, name + " enables " + (all.empty() ? "no pooling mode" : all));
}

Result<std::optional<Pooling>> pooling_of_modules(const ModelFile& file) {
  TRY_ASSIGN(const std::optional<std::string> text, file.companion(kModulesName));
  if (!text) return std::optional<Pooling>();
  TRY_ASSIGN(const Json modules, parse_model_json(*text, file.path() + "/" + kModulesName));
  if (!modules.is_array()) return {ErrorCode::kBadHeader, file.path() + "/" + kModulesName + ": is not a JSON array"};
  constexpr std::string_view kOwner = "sentence_transformers.";
  std::optional<Pooling> pooling;
  for (const Json& module : modules) {
    const std::string type = text_of(module, "type");
    const std::string last = type.substr(type.rfind('.') + 1);
    const bool known = type.starts_with(kOwner) && (last == "Transformer" || last == "Normalize" || last == "Pooling");
    if (!known || (last == "Pooling" && pooling)) {
      return unsupported_pooling(file, std::string(kModulesName) + " has the module " + in_quotes(type));
    }
    if (last != "Pooling") continue;
    TRY_ASSIGN(pooling, pooling_of_module(file, text_of(module, "path")));
  }
  return pooling;
}

}  // namespace

Result<std::optional<Pooling>> read_pooling(const ModelFile& model_file, const std::string& prefix) {
  const Hyperparameters file(model_file, prefix);
  TRY(refuse_later_positions(file));
  return file.gguf() ? gguf_pooling(file) : pooling_of_modules(model_file);
}

std::string_view pooling_name(Pooling pooling) { return pooling == Pooling::kMean ? "mean" : "last"; }

uint32_t gguf_number_of(Pooling pooling) { return pooling == Pooling::kMean ? 1 : 3; }

}  // namespace ibid
