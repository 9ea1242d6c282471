// The sampling options that are recommended for a model: those in its row of the model catalog; if it has no row, those
// in its own files (generation_config.json, GGUF's general.sampling.*).
#pragma once

#include <string>
#include <vector>

#include "ibid/turn.h"

namespace ibid {

class ModelFile;

// A named option (apps/chat/sampling_options.h) and its value.
struct RecommendedSampling {
  std::string name, value;
};

// Returns the options for the model at `path`. Values out of range are left out, with a remark on standard error.
std::vector<RecommendedSampling> recommended_sampling(const std::string& path);
// Returns the recommendations of the file itself; values are not checked.
std::vector<RecommendedSampling> sampling_of_file(const ModelFile& file);

void apply_recommended(const std::string& path, TurnOptions& options);

}  // namespace ibid
