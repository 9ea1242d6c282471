// ibid models: lists the models on this machine, and tells whether they run.
#include <signal.h>

#include <cerrno>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "apps/command_line/command.h"
#include "apps/inspect/explanation.h"
#include "apps/models/local_models.h"
#include "apps/models/model_catalog.h"
#include "apps/terminal/output.h"
#include "apps/terminal/terminal_text.h"
#include "base/json_limits.h"

namespace ibid {

namespace {

struct Summary {
  std::string architecture;
  std::string types;  // weight types, the one with the most bytes first
  uint64_t bytes = 0;
  size_t context = 0;
  Status verdict;
};

std::string architecture_of(const ModelFile& file) {
  for (const char* key : {"general.architecture", "model_type"}) {
    const auto text = file.get_string(key);
    if (text.ok() && *text) return std::string(**text);
  }
  return "";
}

// Returns the weight types, without types that only small tensors have (norms).
std::string types_of(const ModelFile& file) {
  constexpr size_t kWorthNaming = 20;  // a type is listed if it has at least 1/20 of the bytes
  std::map<std::string, size_t> bytes;
  size_t all = 0;
  for (const std::string& name : file.tensor_names()) {
    const TensorView* tensor = file.find_tensor(name);
    bytes[std::string(dtype_name(tensor->dtype))] += tensor->data.size();
    all += tensor->data.size();
  }
  std::multimap<size_t, std::string, std::greater<>> by_bytes;
  for (const auto& [type, n] : bytes) by_bytes.emplace(n, type);
  std::string text;
  for (const auto& [n, type] : by_bytes) {
    if (n >= all / kWorthNaming) text += (text.empty() ? "" : "+") + type;
  }
  return text;
}

Summary summarize(const LocalModel& model) {
  Summary summary;
  Result<Inspection> inspection = inspect_model(model.path, {});
  if (!inspection.ok()) {
    summary.verdict = inspection.status();
    return summary;
  }
  summary.verdict = inspection->verdict;
  summary.architecture = architecture_of(*inspection->file);
  summary.types = types_of(*inspection->file);
  summary.bytes = inspection->file->file_bytes();
  if (inspection->plan) summary.context = inspection->plan->max_seq_len;
  return summary;
}

// Removes the path, which the listing shows already, and the list of supported values from an error.
std::string short_reason(const Status& verdict, const std::string& path) {
  std::string reason = verdict.message().substr(0, verdict.message().find(" (supported:"));
  if (reason.starts_with(path + ": ")) reason.erase(0, path.size() + 2);
  return reason;
}

std::string verdict_text(const Status& verdict, const std::string& path) {
  if (verdict.ok()) return "fits";
  if (verdict.code() == ErrorCode::kOutOfMemory) return "does not fit into memory";
  return "does not run: " + short_reason(verdict, path);
}

std::string line_of(const Summary& summary, const std::string& path) {
  std::string line;
  const auto add = [&](const std::string& part) {
    if (!part.empty()) line += (line.empty() ? "" : " · ") + part;
  };
  add(summary.architecture);
  add(summary.bytes > 0 ? format_bytes(summary.bytes) : "");
  add(summary.types);
  add(summary.context > 0 ? "context " + std::to_string(summary.context) : "");
  add(verdict_text(summary.verdict, path));
  return line;
}

Json json_of(const LocalModel& model, const Summary& summary) {
  Json json = {{"name", model.name},         {"path", model.path},
               {"store", model.store},       {"architecture", summary.architecture},
               {"bytes", summary.bytes},     {"types", summary.types},
               {"context", summary.context}, {"runs", summary.verdict.ok()}};
  if (!summary.verdict.ok()) json["why_not"] = summary.verdict.message();
  return json;
}

bool print(const std::string& line) { return std::puts(line.c_str()) >= 0 && std::fflush(stdout) == 0; }

Result<int> list_models(bool as_json) {
  signal(SIGPIPE, SIG_IGN);
  const std::vector<LocalModel> models = local_models();
  std::string store;
  for (const LocalModel& model : models) {
    const Summary summary = summarize(model);
    std::string text;
    if (as_json) {
      text = json_to_string(json_of(model, summary));
    } else {
      if (model.store != store) text = (store.empty() ? "" : "\n") + model.store + "\n";
      store = model.store;
      text += "  " + one_line(model.name) + "\n    " + one_line(line_of(summary, model.path));
    }
    if (!print(text)) return errno == EPIPE ? Result<int>(kReaderGone) : cannot_write();
  }
  for (const std::string& folder : unreadable_stores()) {
    remark("ibid: " + folder + " cannot be read by this user; its models are not listed");
  }
  if (models.empty() && !as_json) {
    std::fprintf(stderr, "no models on this machine; %s fetches %s,\n%s lists others\n", own_command("pull").c_str(),
                 default_model().name, own_command("pull --help").c_str());
  }
  return 0;
}

}  // namespace

void add_models(CLI::App& root, int& exit_code) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command = root.add_subcommand("models", "the models on this machine, and whether they run here");
  command->add_flag("--json", *as_json, "print one line of JSON per model")->group(kCommonGroup);
  command->footer(
      "Those of ibid ($IBID_MODELS), and, read-only, of the Hugging Face cache,\n"
      "llama.cpp, Ollama and LM Studio. Every command takes such a name; the\n"
      "beginning of one is enough.");
  command->callback([as_json, &exit_code] {
    const Result<int> status = list_models(*as_json);
    exit_code = status.ok() ? *status : report(status.status());
  });
}

}  // namespace ibid
