// ModelHost: the models of a server by name. A model is loaded when it is first asked for, within a memory budget, and
// unloaded when nobody has asked for a while. Whoever has a model's pointer keeps it loaded.
//
// Thread-safe. load() of one model does not hold up others that are loaded.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "runtime/engine/engine.h"

namespace ibid::serve {

struct HostedModel {
  std::string name;           // "smollm2-135m-instruct.q4_1": of its file, without the ending
  std::string path;
  uint64_t file_bytes = 0;
  int64_t created_s = 0;      // of its file, seconds since 1970
  bool is_loaded = false;
  std::shared_ptr<Engine> engine = nullptr;  // where it is loaded
};

struct ModelHostOptions {
  uint64_t memory_budget_bytes = 0;          // of all loaded models' files and keys and values; 0: no limit
  std::chrono::milliseconds keep_alive{-1};  // unload after so long without a request; < 0: never
  bool load_at_once = true;                  // the first model, in create(), so that errors come before the port opens
};

class ModelHost {
 public:
  // How an engine is made of a path; tests give fakes.
  using Loader = std::function<Result<std::shared_ptr<Engine>>(const std::string& path)>;

  // paths: as the command line has them. Errors: kInvalidArgument: two models of one name; those of the loader.
  static Result<std::unique_ptr<ModelHost>> create(std::vector<std::string> paths, Loader loader, Clock& clock,
                                                   const ModelHostOptions& options);

  // Loads it if need be, on this thread; a second call for the same model waits for the first. Empty: the first model.
  // Errors: kNotFound naming it and those there are; kOutOfMemory: the budget, with both numbers; the loader's.
  Result<std::shared_ptr<Engine>> get(std::string_view name);
  // As the command line had them.
  std::vector<HostedModel> list() const;
  // Unloads what nobody has asked for within keep_alive; called now and then by the service.
  void unload_idle();
  // Status kNotFound; unloads once nobody has its pointer.
  Status unload(std::string_view name);

 private:
  struct Model;
  ModelHost(Loader loader, Clock& clock, const ModelHostOptions& options);

  Loader loader_;
  Clock& clock_;
  ModelHostOptions options_;
  std::vector<std::unique_ptr<Model>> models_;
};

}  // namespace ibid::serve
