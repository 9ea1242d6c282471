// bench_sessions: measures the claims about sessions, and prints one row for each: claim, goal, measured value, and
// whether the goal is met.
//   bench_sessions [MODEL] [--what chat,prompt,resume,memory,company,constraints] [--rounds 5] [--threads N] [--kv f16]
//                  [--json]
// Exit status: 0 even if a goal is missed, which the row shows; 1 if a value could not be measured.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "apps/chat/load_engine.h"
#include "apps/models/model_arguments.h"
#include "apps/models/model_catalog.h"
#include "base/json_limits.h"
#include "bench/lab/processes.h"
#include "bench/programs/session_claims.h"
#include "kernels/ops/dispatch.h"

namespace ibid {
namespace {

struct Arguments {
  ModelArguments model;
  std::vector<std::string> what = {"chat", "prompt", "resume", "memory", "company", "constraints"};
  size_t rounds = 5;
  bool json = false;

  bool wants(const char* part) const { return std::find(what.begin(), what.end(), part) != what.end(); }
};

void print(const Claim& claim, bool json) {
  const char* const verdict = !claim.holds ? "" : *claim.holds ? "holds" : "MISSED";
  if (json) {
    Json line = {{"engine", "ibid"},
                 {"what", "session_claim"},
                 {"claim", claim.what},
                 {"goal", claim.goal},
                 {"measured", claim.measured}};
    if (claim.holds) line["holds"] = *claim.holds;
    line.update(claim.values);
    std::puts(json_to_string(line).c_str());
  } else {
    std::printf("%-64s %-34s %-60s %s\n", claim.what.c_str(), claim.goal.c_str(), claim.measured.c_str(), verdict);
  }
  std::fflush(stdout);
}

Status run(const Arguments& arguments) {
  TRY_ASSIGN(const std::string path, resolve_model(arguments.model.model));
  TRY_ASSIGN(const Isa isa, active_isa());
  const LoadEngine load = [&](const std::string& cache_directory) {
    EngineOptions options = engine_options(arguments.model);
    options.cache_directory = cache_directory;
    options.fingerprint = true;
    return Engine::load(path, options);
  };
  const OtherProcesses others;
  const ClaimSink sink = [&](const Claim& claim) { print(claim, arguments.json); };
  if (!arguments.json) {
    std::printf("%s, %s keys and values, %s, %s\n", path.substr(path.rfind('/') + 1).c_str(),
                arguments.model.kv.c_str(), arguments.model.numerics.c_str(), std::string(isa_name(isa)).c_str());
  }
  if (arguments.wants("chat")) TRY(claims_of_long_chats(load, sink));
  if (arguments.wants("prompt")) TRY(claims_of_shared_prompt(load, sink));
  if (arguments.wants("resume")) TRY(claims_of_resuming(load, arguments.rounds, sink));
  if (arguments.wants("memory")) TRY(claims_of_memory(load, sink));
  if (arguments.wants("company")) TRY(claims_of_company(load, arguments.rounds, sink));
  if (arguments.wants("constraints")) TRY(claims_of_constraints(load, arguments.rounds, sink));
  if (!arguments.json) std::printf("other processes had %.1f %% of the CPUs\n", others.percent());
  return {};
}

}  // namespace
}  // namespace ibid

int main(int argc, char** argv) {
  CLI::App app("measures the claims about sessions");
  ibid::Arguments arguments;
  arguments.model.add_model(app, false);
  arguments.model.add_running(app);
  app.add_option("--what", arguments.what,
                 "some of chat, prompt, resume, memory, company, constraints (comma-separated)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"chat", "prompt", "resume", "memory", "company", "constraints"}));
  app.add_option("--rounds", arguments.rounds, "repetitions of what is timed; medians are reported")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--json", arguments.json, "one JSON object a line");
  CLI11_PARSE(app, argc, argv);
  if (const ibid::Status status = ibid::run(arguments); !status.ok()) {
    std::fprintf(stderr, "bench_sessions: %s\n", status.message().c_str());
    return 1;
  }
  return 0;
}
