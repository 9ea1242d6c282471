// ibid inspect: whether a model runs, what it will cost in memory, and what is in its file, before anything is loaded.
#include <cstdio>
#include <map>
#include <memory>

#include "apps/command.h"
#include "apps/inspect/inspection.h"
#include "apps/model_arguments.h"
#include "apps/models/model_catalog.h"
#include "apps/option_kinds.h"
#include "apps/terminal_text.h"
#include "model/architectures.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

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
    total.bytes += tensor->bytes();
  }
  return totals;
}

void print_verdict(const Inspection& inspection) {
  if (inspection.runs()) {
    std::puts("runs: yes");
  } else {
    std::printf("runs: no, %s\n", one_line(inspection.verdict.message()).c_str());
  }
  if (inspection.runs() && !inspection.chat.ok()) {
    std::printf("chats: no, %s\n", one_line(inspection.chat.message()).c_str());
  }
  if (inspection.plan) {
    const MemoryPlan& plan = *inspection.plan;
    std::printf("memory: %s for weights (packed), %s of scratch\n", format_bytes(plan.weights_bytes).c_str(),
                format_bytes(plan.activations_bytes).c_str());
    std::printf("keys and values: %s a position, %s for a context of %zu\n",
                format_bytes(plan.kv_bytes_per_position).c_str(), format_bytes(plan.kv_bytes(plan.max_seq_len)).c_str(),
                plan.max_seq_len);
    std::printf("available: %s\n", format_bytes(available_memory_bytes()).c_str());
  }
  if (!inspection.sampling.empty()) std::printf("sampling in chat and ask: %s\n", inspection.sampling.c_str());
}

void print_text(const Inspection& inspection, bool tensors) {
  const ModelFile& file = *inspection.file;
  print_verdict(inspection);
  std::printf("\n%s  (%s, %s)\n\nmetadata\n", one_line(file.path()).c_str(),
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
}

// The plan, and whether one page of keys and values fits beside the weights.
Status plan_of(const ModelFile& file, const ModelOptions& options, std::optional<MemoryPlan>& plan) {
  TRY_ASSIGN(const ModelConfig config, read_config(file));
  TRY_ASSIGN(plan, plan_memory(file, config, options));
  return check_memory(*plan, plan->kv_page_bytes);
}

Status chat_parts_of(const ModelFile& file) {
  TRY(load_tokenizer(file).status());
  return ChatTemplate::load(file).status();
}

// 0: it runs; 1: it does not.
Result<int> inspect(const Arguments& arguments) {
  TRY_ASSIGN(const std::string path, resolve_model(arguments.model.model));
  TRY_ASSIGN(Inspection inspection, inspect_model(path, arguments.model.options()));
  if (const KnownModel* known = known_model_of_file(path)) {
    for (const RecommendedOption& option : known->sampling) {
      inspection.sampling += std::string(inspection.sampling.empty() ? "--" : " --") + option.name + " " + option.value;
    }
  }
  if (arguments.json) {
    std::puts(json_to_string(inspection_json(inspection)).c_str());
  } else {
    print_text(inspection, arguments.tensors);
  }
  return inspection.runs() ? 0 : 1;
}

}  // namespace

Result<Inspection> inspect_model(const std::string& path, const ModelOptions& options) {
  Inspection inspection;
  Result<std::unique_ptr<ModelFile>> file = open_model_file(path);
  inspection.verdict = file.ok() ? plan_of(**file, options, inspection.plan) : file.status();
  if (!file.ok()) file = open_model_file(path, {.vocabulary_only = true});
  const bool shows_something = file.ok() && (inspection.runs() || !(*file)->describe_metadata().empty());
  if (!shows_something) return inspection.verdict;
  inspection.file = *std::move(file);
  inspection.chat = chat_parts_of(*inspection.file);
  return inspection;
}

void add_inspect(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = root.add_subcommand("inspect", "whether a model runs, what it needs, what is in its file");
  arguments->model.add_model(*command, false);
  command->add_flag("--tensors", arguments->tensors, "list every tensor")->group(kCommonGroup);
  command->add_flag("--json", arguments->json, "print JSON")->group(kCommonGroup);
  arguments->model.add_running(*command);
  command->footer("The exit status is 0 for a model that runs, and 1 for one that does not.");
  command->callback([arguments, &exit_code] {
    const Result<int> status = inspect(*arguments);
    exit_code = status.ok() ? *status : report(status.status());
  });
}

}  // namespace ibid
