#include "apps/chat/recommended_sampling.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "apps/chat/sampling_options.h"
#include "apps/models/model_catalog.h"
#include "apps/terminal/output.h"
#include "apps/terminal/terminal_text.h"
#include "weights/model_file.h"
#include "weights/model_json.h"

namespace ibid {
namespace {

struct FileOption {
  const char* option;
  const char* gguf;  // GGUF key without its prefix "general.sampling."
  const char* json;  // key in generation_config.json; "": there is no key
};
constexpr FileOption kFileOptions[] = {
    {"temperature", "temp", "temperature"},
    {"top-k", "top_k", "top_k"},
    {"top-p", "top_p", "top_p"},
    {"min-p", "min_p", "min_p"},
    {"typical-p", "typical_p", "typical_p"},
    {"repeat-penalty", "penalty_repeat", "repetition_penalty"},
    {"repeat-last-n", "penalty_last_n", ""},
    {"xtc-probability", "xtc_probability", ""},
    {"xtc-threshold", "xtc_threshold", ""},
};

// Returns the shortest text that reads back as the same float, because files store most numbers in 32 bits.
std::string number_text(double number) {
  std::array<char, 32> buffer;
  const bool is_whole = std::abs(number) < 1e15 && number == std::trunc(number);
  char* const begin = buffer.data();
  char* const limit = begin + buffer.size();
  const auto end = is_whole ? std::to_chars(begin, limit, static_cast<int64_t>(number))
                   : std::abs(number) < std::numeric_limits<float>::max()
                       ? std::to_chars(begin, limit, static_cast<float>(number))
                       : std::to_chars(begin, limit, number);
  return {buffer.data(), end.ptr};
}

void add_of_gguf(const ModelFile& file, std::vector<RecommendedSampling>& out) {
  for (const FileOption& row : kFileOptions) {
    const auto number = file.get_float(std::string("general.sampling.") + row.gguf);
    if (number.ok() && *number) out.push_back({row.option, number_text(**number)});
  }
}

void add_of_json(const ModelFile& file, std::vector<RecommendedSampling>& out) {
  const Result<std::optional<std::string>> text = file.companion("generation_config.json");
  if (!text.ok() || !*text) return;
  const Result<Json> json = parse_model_json(**text, "generation_config.json");
  if (!json.ok()) return;  // no error here: loading the model will report it
  const JsonValues values(&*json, "generation_config.json");
  if (const auto samples = values.get_bool("do_sample"); samples.ok() && *samples == false) {
    return out.push_back({"temperature", "0"});
  }
  for (const FileOption& row : kFileOptions) {
    const auto number = values.get_float(row.json);
    if (number.ok() && *number) out.push_back({row.option, number_text(**number)});
  }
}

}  // namespace

std::vector<RecommendedSampling> sampling_of_file(const ModelFile& file) {
  std::vector<RecommendedSampling> out;
  file.container() == Container::kGguf ? add_of_gguf(file, out) : add_of_json(file, out);
  return out;
}

std::vector<RecommendedSampling> recommended_sampling(const std::string& path) {
  std::vector<RecommendedSampling> out;
  if (const KnownModel* known = known_model_of_file(path)) {
    for (const RecommendedOption& option : known->sampling) out.push_back({option.name, option.value});
    return out;
  }
  const Result<std::unique_ptr<ModelFile>> file = open_model_file(path, {.vocabulary_only = true});
  if (!file.ok()) return out;  // no error here: loading the model will report it
  TurnOptions scratch;
  for (RecommendedSampling& option : sampling_of_file(**file)) {
    const Status status = apply_sampling(scratch, option.name, option.value);
    if (status.ok()) {
      out.push_back(std::move(option));
    } else {
      remark("ibid: warning: " + one_line(path) + ": a recommended option is not used: " + status.message());
    }
  }
  return out;
}

void apply_recommended(const std::string& path, TurnOptions& options) {
  for (const RecommendedSampling& option : recommended_sampling(path)) {
    CHECK(apply_sampling(options, option.name, option.value).ok()) << option.name << " " << option.value;
  }
}

}  // namespace ibid
