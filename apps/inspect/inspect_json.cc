// What `ibid inspect --json` prints: numbers as numbers.
#include "apps/inspect/inspection.h"

namespace ibid {

namespace {

constexpr size_t kWholeArray = 32;  // longer ones (a vocabulary has 50,000 texts) are shown by their beginning
constexpr size_t kBeginning = 8;

template <typename T>
Json array_json(const std::vector<T>& values) {
  Json list = Json::array();
  const size_t n = values.size() <= kWholeArray ? values.size() : kBeginning;
  for (size_t i = 0; i < n; ++i) list.push_back(values[i]);
  if (n == values.size()) return list;
  return {{"length", values.size()}, {"first", std::move(list)}};
}

// Takes the value over if it is there and of this type.
template <typename T>
bool take(Result<std::optional<T>> value, Json& json) {
  if (!value.ok() || !value->has_value()) return false;
  json = **value;
  return true;
}

template <typename T>
bool take_array(Result<std::optional<std::vector<T>>> value, Json& json) {
  if (!value.ok() || !value->has_value()) return false;
  json = array_json(**value);
  return true;
}

Json metadata_json(const ModelFile& file) {
  if (file.config_json() != nullptr) return *file.config_json();
  Json metadata = Json::object();
  for (const ModelFile::MetadataLine& line : file.describe_metadata()) {
    Json& value = metadata[line.key];
    const bool known = take(file.get_bool(line.key), value) || take(file.get_int(line.key), value) ||
                       take(file.get_float(line.key), value) || take(file.get_string(line.key), value) ||
                       take_array(file.get_strings(line.key), value) || take_array(file.get_ints(line.key), value) ||
                       take_array(file.get_floats(line.key), value);
    if (!known) value = line.value;
  }
  return metadata;
}

Json memory_json(const MemoryPlan& plan) {
  return {{"weights_bytes", plan.weights_bytes},
          {"activations_bytes", plan.activations_bytes},
          {"kv_bytes_per_position", plan.kv_bytes_per_position},
          {"max_seq_len", plan.max_seq_len},
          {"kv_bytes_full_context", plan.kv_bytes(plan.max_seq_len)},
          {"available_bytes", available_memory_bytes()}};
}

}  // namespace

Json inspection_json(const Inspection& inspection) {
  const ModelFile& file = *inspection.file;
  Json json = {{"runs", inspection.runs()}, {"chats", inspection.runs() && inspection.chat.ok()}};
  if (!inspection.runs()) json["reason"] = inspection.verdict.message();
  if (inspection.runs() && !inspection.chat.ok()) json["reason"] = inspection.chat.message();
  json["path"] = file.path();
  json["container"] = file.container() == Container::kGguf ? "GGUF" : "safetensors";
  json["file_bytes"] = file.file_bytes();
  if (inspection.plan) json["memory"] = memory_json(*inspection.plan);
  json["sampling"] = inspection.sampling;
  json["metadata"] = metadata_json(file);
  json["tensors"] = Json::array();
  for (const std::string& name : file.tensor_names()) {
    const TensorView* tensor = file.find_tensor(name);
    Json shape = Json::array();
    for (size_t i = 0; i < tensor->shape.rank; ++i) shape.push_back(tensor->shape[i]);
    json["tensors"].push_back({{"name", name},
                               {"dtype", std::string(dtype_name(tensor->dtype))},
                               {"shape", std::move(shape)},
                               {"bytes", tensor->bytes()}});
  }
  json["warnings"] = file.warnings();
  return json;
}

}  // namespace ibid
