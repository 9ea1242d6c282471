// ibid inspect: what is in a model file, and what it will cost in memory, before anything is loaded.
#include <cstdio>
#include <map>
#include <memory>

#include "apps/command.h"
#include "apps/model_arguments.h"
#include "apps/models/model_catalog.h"
#include "apps/terminal_text.h"
#include "base/json_limits.h"
#include "model/architectures.h"
#include "model/memory_plan.h"
#include "weights/model_file.h"

namespace ibid {

namespace {

struct Arguments {
  ModelArguments model;
  bool tensors = false;
  bool json = false;
};

struct TypeTotal {
  size_t tensors = 0;
  size_t bytes = 0;
};

std::map<std::string, TypeTotal> totals_by_type(const ModelFile& file) {
  std::map<std::string, TypeTotal> totals;
  for (const std::string& name : file.tensor_names()) {
    const TensorView* tensor = file.find_tensor(name);
    TypeTotal& total = totals[std::string(dtype_name(tensor->dtype))];
    ++total.tensors;
    total.bytes += tensor->data.size();
  }
  return totals;
}

Json plan_as_json(const MemoryPlan& plan) {
  return {{"weights_bytes", plan.weights_bytes},
          {"activations_bytes", plan.activations_bytes},
          {"kv_bytes_per_position", plan.kv_bytes_per_position},
          {"max_seq_len", plan.max_seq_len},
          {"kv_bytes_full_context", plan.kv_bytes(plan.max_seq_len)},
          {"available_bytes", available_memory_bytes()}};
}

void print_json(const ModelFile& file, const Result<MemoryPlan>& plan) {
  Json out = {{"path", file.path()}, {"file_bytes", file.file_bytes()}, {"metadata", Json::object()},
              {"tensors", Json::array()}, {"warnings", file.warnings()}};
  for (const ModelFile::MetadataLine& line : file.describe_metadata()) out["metadata"][line.key] = line.value;
  for (const std::string& name : file.tensor_names()) {
    const TensorView* tensor = file.find_tensor(name);
    out["tensors"].push_back({{"name", name},
                              {"dtype", std::string(dtype_name(tensor->dtype))},
                              {"shape", tensor->shape.to_string()},
                              {"bytes", tensor->data.size()}});
  }
  if (plan.ok()) out["memory"] = plan_as_json(*plan);
  if (!plan.ok()) out["unsupported"] = plan.status().message();
  std::puts(json_to_string(out).c_str());
}

void print_text(const ModelFile& file, const Result<MemoryPlan>& plan, bool tensors) {
  std::printf("%s  (%s, %s)\n\nmetadata\n", file.path().c_str(),
              file.container() == Container::kGguf ? "GGUF" : "safetensors", format_bytes(file.file_bytes()).c_str());
  for (const ModelFile::MetadataLine& line : file.describe_metadata()) {
    std::printf("  %-44s %-10s %s\n", one_line(line.key).c_str(), line.type.c_str(), one_line(line.value).c_str());
  }
  std::printf("\ntensors\n");
  for (const auto& [type, total] : totals_by_type(file)) {
    std::printf("  %-6s %5zu  %s\n", type.c_str(), total.tensors, format_bytes(total.bytes).c_str());
  }
  for (const std::string& name : tensors ? file.tensor_names() : std::vector<std::string>()) {
    const TensorView* tensor = file.find_tensor(name);
    std::printf("  %-44s %-6s %s\n", one_line(name).c_str(), std::string(dtype_name(tensor->dtype)).c_str(),
                tensor->shape.to_string().c_str());
  }
  for (const std::string& warning : file.warnings()) std::printf("  warning: %s\n", warning.c_str());
  if (!plan.ok()) {
    std::printf("\nibid cannot run it: %s\n", plan.status().message().c_str());
    return;
  }
  std::printf("\nmemory\n  weights, packed        %s\n", format_bytes(plan->weights_bytes).c_str());
  std::printf("  scratch                %s\n", format_bytes(plan->activations_bytes).c_str());
  std::printf("  keys and values        %s a position, %s for the whole context of %zu\n",
              format_bytes(plan->kv_bytes_per_position).c_str(),
              format_bytes(plan->kv_bytes(plan->max_seq_len)).c_str(), plan->max_seq_len);
  std::printf("  available              %s\n", format_bytes(available_memory_bytes()).c_str());
}

Result<MemoryPlan> plan_of(const ModelFile& file, const ModelOptions& options) {
  TRY_ASSIGN(const ModelConfig config, read_config(file));
  return plan_memory(file, config, options);
}

// A file whose tensors cannot be used still has metadata to show; why it cannot is shown in place of the plan.
Status inspect(const Arguments& arguments) {
  TRY_ASSIGN(const std::string path, resolve_model(arguments.model.model));
  Result<std::unique_ptr<ModelFile>> file = open_model_file(path);
  Result<MemoryPlan> plan = file.status().ok() ? plan_of(**file, arguments.model.options())
                                               : Result<MemoryPlan>(file.status());
  if (!file.ok()) file = open_model_file(path, {.vocabulary_only = true});
  const bool shows_something = file.ok() && (plan.ok() || !(*file)->describe_metadata().empty());
  if (!shows_something) return plan.status();
  arguments.json ? print_json(**file, plan) : print_text(**file, plan, arguments.tensors);
  return {};
}

}  // namespace

void add_inspect(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = root.add_subcommand("inspect", "what is in a model file, and what it will cost in memory");
  arguments->model.add_model(*command, false);
  arguments->model.add_running(*command);
  command->add_flag("--tensors", arguments->tensors, "list every tensor");
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments, &exit_code] {
    if (const Status status = inspect(*arguments); !status.ok()) exit_code = report(status);
  });
}

}  // namespace ibid
