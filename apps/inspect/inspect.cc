// ibid inspect: shows whether a model runs, its architecture, memory cost and tensors, without loading it. With --check
// also checks the weights; with --quick reads no weights.
#include <cstdio>
#include <memory>

#include "apps/chat/load_engine.h"
#include "apps/chat/recommended_sampling.h"
#include "apps/command_line/command.h"
#include "apps/inspect/explanation.h"
#include "apps/models/model_arguments.h"
#include "apps/terminal/progress.h"

namespace ibid {

namespace {

constexpr size_t kWholeArray = 32;  // longer arrays are cut (a vocabulary has 50,000 texts)
constexpr size_t kBeginning = 8;

template <typename T>
Json array_json(const std::vector<T>& values) {
  Json list = Json::array();
  const size_t n = values.size() <= kWholeArray ? values.size() : kBeginning;
  for (size_t i = 0; i < n; ++i) list.push_back(values[i]);
  if (n == values.size()) return list;
  return {{"length", values.size()}, {"first", std::move(list)}};
}

// Stores `value` in `json` if the metadata has the key with a value of type T. Returns whether it was stored.
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
          {"state_bytes", plan.state_bytes},
          {"max_seq_len", plan.max_seq_len},
          {"kv_bytes_full_context", plan.kv_bytes(plan.max_seq_len)},
          {"available_bytes", available_memory_bytes()}};
}

Json needs_json(const std::vector<MemoryNeed>& needs) {
  Json list = Json::array();
  const size_t available = available_memory_bytes();
  for (const MemoryNeed& need : needs) {
    Json of_context = {{"context", need.context}};
    Json fits = Json::object();
    for (size_t i = 0; i < kKvTypes.size(); ++i) {
      of_context[std::string(kKvTypes[i].name) + "_bytes"] = need.bytes[i];
      fits[kKvTypes[i].name] = need.bytes[i] <= available;
    }
    of_context["fits"] = std::move(fits);
    list.push_back(std::move(of_context));
  }
  return list;
}

Json types_json(const std::vector<TensorUse>& uses) {
  Json list = Json::array();
  for (const TypeShare& share : type_shares(uses)) {
    list.push_back({{"class", std::string(share.tensor_class)},
                    {"type", std::string(share.type)},
                    {"tensors", share.n_tensors},
                    {"bytes", share.bytes}});
  }
  return list;
}

Json tensors_json(const ModelFile& file) {
  Json list = Json::array();
  for (const std::string& name : file.tensor_names()) {
    const TensorView* tensor = file.find_tensor(name);
    Json shape = Json::array();
    for (size_t i = 0; i < tensor->shape.rank; ++i) shape.push_back(tensor->shape[i]);
    list.push_back({{"name", name},
                    {"dtype", std::string(dtype_name(tensor->dtype))},
                    {"shape", std::move(shape)},
                    {"bytes", tensor->bytes()}});
  }
  return list;
}

Json check_json(const WeightReport& report) {
  Json findings = Json::array();
  for (const Finding& finding : report.findings) {
    findings.push_back({{"kind", finding_name(finding.kind)},
                        {"damage", is_damage(finding.kind)},
                        {"tensor", finding.tensor},
                        {"count", finding.count},
                        {"text", finding.text}});
  }
  return {{"sound", report.sound()},
          {"tensors", report.n_tensors},
          {"weights", report.n_values},
          {"bytes", report.bytes},
          {"findings", std::move(findings)}};
}

}  // namespace

Json explanation_json(const Explanation& explanation) {
  const Inspection& inspection = explanation.inspection;
  const ModelFile& file = *inspection.file;
  Json json = {{"runs", inspection.runs()}, {"chats", inspection.runs() && explanation.chat.ok()}};
  if (!inspection.runs()) {
    json["reason"] = inspection.verdict.message();
  } else if (!explanation.chat.ok()) {
    json["reason"] = explanation.chat.message();
  }
  json["path"] = file.path();
  json["container"] = file.container() == Container::kGguf ? "GGUF" : "safetensors";
  json["file_bytes"] = file.file_bytes();
  json["model"] = facts_json(explanation.model);
  if (!explanation.kv_rows.empty()) json["kv_rows"] = facts_json(explanation.kv_rows);
  json["types"] = types_json(explanation.uses);
  if (inspection.plan) {
    json["memory"] = memory_json(*inspection.plan);
    json["memory"]["needs"] = needs_json(explanation.needs);
  }
  json["tokenizer"] = facts_json(explanation.tokens);
  json["template"] = facts_json(explanation.chat_template);
  json["sampling"] = explanation.sampling;
  if (explanation.check) json["check"] = check_json(*explanation.check);
  json["metadata"] = metadata_json(file);
  json["tensors"] = tensors_json(file);
  json["warnings"] = explanation.warnings;
  return json;
}

namespace {

struct InspectArguments {
  ModelArguments model;
  bool tensors = false;
  bool check = false;
  bool quick = false;
  bool json = false;
};

std::string sampling_of(const std::string& path) {
  std::string sampling;
  for (const RecommendedSampling& option : recommended_sampling(path)) {
    sampling += std::string(sampling.empty() ? "--" : " --") + option.name + " " + option.value;
  }
  return sampling;
}

Status check(Explanation& explanation, int n_threads) {
  const Inspection& inspection = explanation.inspection;
  const ModelConfig* config = inspection.config ? &*inspection.config : nullptr;
  ByteProgress progress(0, bytes_to_check(explanation.uses));
  TRY_ASSIGN(explanation.check, check_weights(*inspection.file, explanation.uses, config, n_threads,
                                              [&](uint64_t bytes) { progress.show(bytes); }));
  add_findings(*explanation.check, check_vocabulary(explanation.uses, config, explanation.tokenizer.get()));
  if (explanation.chat.code() == ErrorCode::kBadVocab) {
    add_findings(*explanation.check, {{FindingKind::kVocabulary, "", 0, explanation.chat.message()}});
  }
  return {};
}

// Returns 0 if the model runs and its weights have no damage, else 1.
Result<int> inspect(const InspectArguments& arguments) {
  TRY_ASSIGN(const std::string path, find_model(arguments.model));
  TRY_ASSIGN(Inspection inspection, inspect_model(path, arguments.model.options()));
  if (!arguments.quick) {
    ByteProgress progress(0, inspection.file->file_bytes());
    inspect_weights(inspection, arguments.model.n_threads, [&](uint64_t bytes) { progress.show(bytes); });
  }
  Explanation explanation = explain(std::move(inspection), arguments.model.options());
  explanation.sampling = sampling_of(path);
  if (arguments.check) TRY(check(explanation, arguments.model.n_threads));
  if (arguments.json) {
    std::puts(json_to_string(explanation_json(explanation)).c_str());
  } else if (arguments.check) {
    print_check(explanation);
  } else {
    print_explanation(explanation, arguments.tensors);
  }
  return explanation.inspection.runs() && explanation.sound() ? 0 : 1;
}

}  // namespace

void add_inspect(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command = root.add_subcommand("inspect", "whether a model runs, its parameters, memory and file");
  arguments->model.add_model(*command, false);
  command->add_flag("--check", arguments->check, "read every weight and report damage and oddities")
      ->group(kCommonGroup);
  command->add_flag("--quick", arguments->quick, "read no weights: a NaN among them stays unseen")->group(kCommonGroup);
  command->add_flag("--tensors", arguments->tensors, "list every tensor")->group(kCommonGroup);
  command->add_flag("--json", arguments->json, "print JSON")->group(kCommonGroup);
  arguments->model.add_running(*command);
  arguments->model.add_fetch(*command);
  command->footer(
      "The exit status is 0 for a model that runs, and 1 for one that does not, or\n"
      "whose weights are damaged (--check).");
  command->callback([arguments, &exit_code] {
    const Result<int> status = inspect(*arguments);
    exit_code = status.ok() ? *status : report(status.status());
  });
}

}  // namespace ibid
