// ibid pull: downloads the default model, or a model of a hub.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/command_line/command.h"
#include "apps/models/hub_download.h"
#include "apps/models/model_catalog.h"
#include "apps/terminal/interrupt.h"
#include "model/memory_plan.h"

namespace ibid {

namespace {

std::string footer_text() {
  std::string text = "Known models:";
  for (const KnownModel& model : known_models()) {
    text += "\n  " + std::string(model.name) + " (" + format_bytes(model.file_bytes) + ", " + model.license + ")";
    text += "\n    " + std::string(model.description);
  }
  text += "\nKnown on the hub, not yet tested with ibid:";
  for (const HubModel& model : hub_models()) {
    text += "\n  " + std::string(model.name) + " (" + model.license + ")\n    " + model.hub_name;
  }
  return text + "\nHF_TOKEN: the token, if a repository requires one; HF_ENDPOINT: another hub.";
}

Result<std::string> pull(const std::string& name) {
  if (const KnownModel* known = find_known_model(name)) return pull_model(*known);
  const HubModel* hub = find_hub_model(name);
  if (hub == nullptr && !is_hub_name(name)) {
    std::vector<std::string> names;
    for (const KnownModel& model : known_models()) names.emplace_back(model.name);
    for (const HubModel& model : hub_models()) names.emplace_back(model.name);
    const std::vector<std::string> near = nearest_names(name, names);
    return Status(ErrorCode::kNotFound,
                  "unknown model '" + name + "'" + (near.empty() ? "" : "; did you mean " + near.front() + "?") + " (" +
                      own_command("pull --help") + " lists the known ones; hf:OWNER/NAME is any other of the hub)");
  }
  if (hub != nullptr) {
    std::fprintf(stderr, "%s is %s (%s); not yet tested with ibid\n", hub->name, hub->hub_name, hub->license);
  }
  TRY_ASSIGN(const HubName hub_name, parse_hub_name(hub == nullptr ? name : hub->hub_name));
  const InterruptScope interrupts;
  TRY_ASSIGN(const HubAccess access, hub_access(interrupts.token()));
  TRY_ASSIGN(std::string path, pull_from_hub(access, hub_name));
  std::fprintf(stderr, "%s is ready\n", path.c_str());
  return path;
}

}  // namespace

void add_pull(CLI::App& root, int& exit_code) {
  auto name = std::make_shared<std::string>(default_model().name);
  CLI::App* command = root.add_subcommand("pull", "fetch a model: a known one, or any of the hub");
  command->add_option("NAME", *name, "a known name, hf:OWNER/NAME, hf:OWNER/NAME:FILE.gguf or hf:OWNER/NAME:Q4_K_M")
      ->type_name("MODEL")
      ->capture_default_str();
  command->footer(footer_text());
  command->callback([name, &exit_code] {
    const Result<std::string> path = pull(*name);
    if (path.ok()) {
      std::printf("%s\n", path->c_str());
    } else {
      exit_code = report(path.status());
      if (path.status().code() == ErrorCode::kCancelled) exit_code = kInterruptedStatus;
    }
  });
}

}  // namespace ibid
