#include "apps/models/model_arguments.h"

#include <CLI/CLI.hpp>

#include "apps/command_line/command.h"
#include "apps/models/model_catalog.h"
#include "apps/terminal/terminal_text.h"
#include "base/text.h"
#include "model/memory_plan.h"

namespace ibid {

namespace {

std::string model_help(bool required) {
  const std::string help = "a .gguf file, a directory with safetensors and config.json, or a known model's name";
  return required ? help : help + " (default: " + default_model().name + ")";
}

}  // namespace

void ModelArguments::add_model(CLI::App& command, bool required) {
  CLI::Option* option = command.add_option("-m,--model,MODEL", model, model_help(required));
  option->type_name("MODEL")->group(kCommonGroup);
  if (required) option->required();
}

void ModelArguments::add_model_option(CLI::App& command) {
  command.add_option("-m,--model", model, model_help(false))->type_name("MODEL")->group(kCommonGroup);
}

void ModelArguments::add_fetch(CLI::App& command) {
  command.add_flag("--fetch", fetch, "fetch the default model without asking if it is needed and missing")
      ->group(kRunningGroup);
}

void ModelArguments::add_running(CLI::App& command) {
  command.add_option("-t,--threads", n_threads, "threads (default: one per core)")
      ->type_name("N")
      ->check(whole_number(1, 1024))
      ->group(kRunningGroup);
  command.add_option("-c,--context,--ctx-size", context, "positions of a conversation (default: the trained context)")
      ->type_name("N")
      ->check(whole_number(1, kMaxContext))
      ->group(kRunningGroup);
  std::vector<std::string> kv_words;
  for (const KvType& type : kKvTypes) kv_words.emplace_back(type.name);
  command.add_option("--kv", kv, "how keys and values are stored")
      ->type_name(joined(kv_words, "|"))
      ->check(one_of(kv_words))
      ->capture_default_str()
      ->group(kRunningGroup);
  command.add_option("--numerics", numerics, "how numbers are computed")
      ->type_name("reference|exact|fast")
      ->check(one_of({"reference", "exact", "fast"}))
      ->capture_default_str()
      ->group(kRunningGroup);
}

ModelOptions ModelArguments::options() const {
  ModelOptions options;
  options.n_threads = n_threads;
  options.max_seq_len = context;
  options.kv_dtype = kv_type_named(kv);
  options.numerics = numerics == "reference" ? Numerics::kReference
                     : numerics == "fast"    ? Numerics::kFast
                                             : Numerics::kExact;
  return options;
}

}  // namespace ibid
