#include "apps/model_arguments.h"

#include <CLI/CLI.hpp>

namespace ibid {

void ModelArguments::add_model(CLI::App& command, bool required) {
  const std::string help = "a .gguf file, a directory with safetensors, or a pulled model's name";
  CLI::Option* option = command.add_option("MODEL", model, required ? help : help + " (default: smollm2)");
  if (required) option->required();
}

void ModelArguments::add_running(CLI::App& command) {
  command.add_option("--threads", n_threads, "threads (default: one per core)")->check(CLI::Range(1, 1024));
  command.add_option("--kv", kv, "how keys and values are stored")
      ->check(CLI::IsMember({"f32", "f16", "int8"}))
      ->capture_default_str();
  command.add_option("--numerics", numerics, "how numbers are computed")
      ->check(CLI::IsMember({"reference", "exact", "fast"}))
      ->capture_default_str();
  command.add_option("--context", context, "positions of a conversation (default: what the model was trained for)")
      ->check(CLI::PositiveNumber);
}

ModelOptions ModelArguments::options() const {
  ModelOptions options;
  options.n_threads = n_threads;
  options.max_seq_len = context;
  options.kv_dtype = kv == "f32" ? KvDType::kF32 : kv == "f16" ? KvDType::kF16 : KvDType::kInt8;
  options.numerics = numerics == "reference" ? Numerics::kReference
                     : numerics == "fast"    ? Numerics::kFast
                                             : Numerics::kExact;
  return options;
}

}  // namespace ibid
