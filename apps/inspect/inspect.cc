// ibid inspect: whether a model runs, what it is, what it will cost in memory and what is in its file, before anything
// is loaded; with --check, whether its weights are sound. With --quick no weight is read.
#include <cstdio>
#include <memory>

#include "apps/chat/load_engine.h"
#include "apps/command_line/command.h"
#include "apps/command_line/option_kinds.h"
#include "apps/inspect/explanation.h"
#include "apps/models/model_arguments.h"
#include "apps/models/model_catalog.h"
#include "apps/terminal/byte_progress.h"

namespace ibid {

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
  const KnownModel* known = known_model_of_file(path);
  if (known == nullptr) return sampling;
  for (const RecommendedOption& option : known->sampling) {
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

// 0: it runs, and nothing is wrong with its weights; 1: it does not, or something is.
Result<int> inspect(const InspectArguments& arguments) {
  TRY_ASSIGN(const std::string path, find_model(arguments.model));
  TRY_ASSIGN(Inspection inspection, look_at_model(path, arguments.model.options()));
  if (!arguments.quick) {
    ByteProgress progress(0, inspection.file->file_bytes());
    look_at_weights(inspection, arguments.model.n_threads, [&](uint64_t bytes) { progress.show(bytes); });
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
  CLI::App* command = root.add_subcommand("inspect", "whether a model runs, what it is and needs, what is in its file");
  arguments->model.add_model(*command, false);
  command->add_flag("--check", arguments->check, "read every weight and say what is wrong or odd")->group(kCommonGroup);
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
