// Paths of test data that is too large for the repository. A test that needs missing data is skipped with a message. On
// a CI machine (CI=true) it fails instead if the model is missing.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace ibid {

// The directory of committed golden files: tests/golden of the source tree.
std::string golden_dir();

// The directory of the reference data: $IBID_SHARED, else "../shared" of the source tree; nullopt if missing.
std::optional<std::string> shared_dir();

// The default model's file in $IBID_MODELS, else $XDG_DATA_HOME/ibid/models, else ~/.local/share/ibid/models, or
// nullopt.
std::optional<std::string> real_model_path();

// True if CI=true, which the CI script sets.
bool running_in_ci();

}  // namespace ibid

// Declares `path` (std::string) as the real model's file, or ends the test. The names of test suites that use this
// macro begin with RealModel, so that sanitizer runs can exclude them.
#define IBID_NEED_REAL_MODEL(path)                                                            \
  if (!::ibid::real_model_path()) {                                                           \
    if (::ibid::running_in_ci()) FAIL() << "the default model is not there: run `ibid pull`"; \
    GTEST_SKIP() << "the default model is not there: run `ibid pull`, or set IBID_MODELS";    \
  }                                                                                           \
  const std::string path = *::ibid::real_model_path()

// Declares `dir` (std::string) as the directory of the reference data, or skips the test.
#define IBID_NEED_SHARED(dir)                                                                          \
  if (!::ibid::shared_dir()) GTEST_SKIP() << "the reference data is not there: set IBID_SHARED to it"; \
  const std::string dir = *::ibid::shared_dir()
