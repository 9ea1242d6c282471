// ModelHost: the models of a server by name. It loads a model when it is first requested, within a memory budget, and
// unloads it after a time without requests. ModelHeaders: the headers of the models' files.
//
// A user of a model holds a lease, and a model with a lease stays loaded. Other parts, such as known conversations, may
// also hold its engine if they release it when the host calls the function set by set_on_unload().
//
// The memory of a model is the size of its file plus its budget of keys and values. If the host's budget is used up,
// models without leases are unloaded, the least recently used first. If a model's file was replaced, the loaded model
// stays for its present users (its weights are in memory). Later requests wait until these have finished and get the
// new file, so that the two are never in memory at once. Thread-safe. Loading one model does not block requests for
// others that are loaded.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/sha256.h"
#include "ibid/turn.h"
#include "runtime/engine/engine_state.h"
#include "server/service/backend.h"
#include "weights/model_file.h"

namespace ibid::serve {

// A model as named on the command line.
struct ModelSource {
  ModelSource(std::string its_path, std::vector<std::string> its_aliases = {})
      : path(std::move(its_path)), aliases(std::move(its_aliases)) {}

  std::string path;
  std::vector<std::string> aliases;         // other names of the model
  TurnOptions recommended = TurnOptions();  // sampling options for requests that set no options
};

class ModelLease;
using ModelLeasePtr = std::shared_ptr<const ModelLease>;

struct HostedModel {
  std::string name;  // the file's name without its extension: "smollm2-135m-instruct.q4_1"
  std::string path;
  uint64_t file_bytes = 0;
  int64_t created_s = 0;  // modification time of the file, in seconds since 1970
  bool is_loaded = false;
  std::shared_ptr<Engine> engine = nullptr;  // set if the model is loaded and has a lease
  // Time until the loaded model is unloaded if no request uses it; nullopt: never.
  std::optional<std::chrono::nanoseconds> unloads_in = {};
};

struct ModelHostOptions {
  uint64_t memory_budget_bytes = 0;                     // budget of all loaded models (files and KV); 0: no limit
  std::chrono::milliseconds keep_alive{-1};             // a model without users is unloaded after this time; < 0: never
  bool load_at_once = true;                             // load the first model in create(), before the port is opened
  std::function<void(const std::string&)> remark = {};  // callback that logs a line about a model
};

class ModelHost {
 public:
  // Makes an engine for a path; tests pass fakes.
  using Loader = std::function<Result<std::shared_ptr<Engine>>(const std::string& path)>;

  // Errors: kInvalidArgument: two models have the same name, or there is no model; those of the loader.
  static Result<std::unique_ptr<ModelHost>> create(std::vector<ModelSource> sources, Loader loader, Clock& clock,
                                                   const ModelHostOptions& options);
  ~ModelHost();

  // `name` in the following calls: any name that resolve() accepts. All return kNotFound if there is no such model.

  // Loads the model if necessary, on this thread. A second call for the same model waits for the first. Also waits for
  // the users of models that must be unloaded first. Errors: kOutOfMemory if the budget is too small, with both
  // numbers; those of the loader, which name the model's file.
  Result<ModelLeasePtr> get(std::string_view name);
  // Returns a lease if neither loading nor waiting is necessary; else null.
  Result<ModelLeasePtr> get_loaded(std::string_view name);
  // Returns a lease on the model for a client's request; loads the model if necessary. Returns null if it would have to
  // wait until users of a model return their leases: call again when n_returned() has changed. Errors of the loader are
  // logged; the returned error is kIo and names only the model.
  Result<ModelLeasePtr> try_get(std::string_view name);
  // Number of leases returned so far.
  uint64_t n_returned() const;

  // Returns the name of the model with this name or alias. Ignores case, and the tag ":latest" that Ollama's clients
  // add. Empty: the first model.
  Result<std::string> resolve(std::string_view name) const;
  Result<TurnOptions> recommended(std::string_view name) const;
  // Returns the models in the order of the command line.
  std::vector<HostedModel> list() const;

  // Sets keep_alive of this model, which replaces the value in the options.
  Status set_keep_alive(std::string_view name, std::chrono::milliseconds keep_alive);
  // Unloads models that were idle for longer than keep_alive. May wait for the disk.
  void unload_idle();

  // Sets a callback in which other parts release the engine. It is called before every unload, with no lock held and no
  // lease left. REQUIRES: no other thread uses the host yet.
  void set_on_unload(std::function<void(const Engine&)> on_unload) { on_unload_ = std::move(on_unload); }

 private:
  friend class ModelLease;
  struct Model;
  struct SharedState;
  struct FileState {
    uint64_t bytes = 0;
    int64_t changed_ns = 0;
    // SHA-256 of the names, inodes, sizes and times of all files. The times include ctime, which no program can set, so
    // the hash differs for another file of equal size and mtime.
    Sha256Digest identity{};
    bool operator==(const FileState&) const = default;
  };
  using Lock = std::unique_lock<std::mutex>;
  static Result<FileState> look_at(const std::string& path);

  ModelHost(Loader loader, Clock& clock, const ModelHostOptions& options);
  Result<Model*> find(std::string_view name) const;
  bool is_stale(const Model& model) const;
  ModelLeasePtr checkout(Model& model) const;
  Result<ModelLeasePtr> get_if_free(Model& model, Lock& lock);
  Result<ModelLeasePtr> load(Model& model, Lock& lock);
  // Unloads models until `bytes` more bytes fit. Returns false if they will fit after other leases are returned. Error:
  // kOutOfMemory if they never fit.
  Result<bool> make_room(const Model& wants, uint64_t bytes, Lock& lock);
  uint64_t n_bytes_loaded() const;
  std::optional<std::chrono::nanoseconds> time_left(const Model& model) const;
  void unload(Model& model, Lock& lock);

  Loader loader_;
  Clock& clock_;
  ModelHostOptions options_;
  std::function<void(const Engine&)> on_unload_;
  const std::shared_ptr<SharedState> shared_state_;  // its lock guards every Model; leases may outlive the host
  std::vector<std::shared_ptr<Model>> models_;
};

// The right to use a loaded model. It ends when the last pointer to the lease is destroyed.
class ModelLease {
 public:
  ModelLease(std::shared_ptr<ModelHost::SharedState> state, std::shared_ptr<ModelHost::Model> model, Clock* clock);
  ~ModelLease();
  ModelLease(const ModelLease&) = delete;
  ModelLease& operator=(const ModelLease&) = delete;

  // Copying this pointer does not extend the lease.
  const std::shared_ptr<Engine>& engine() const { return engine_; }

 private:
  const std::shared_ptr<ModelHost::SharedState> shared_state_;
  const std::shared_ptr<ModelHost::Model> model_;
  Clock* const clock_;  // nullptr: returning the lease does not restart the model's idle time
  std::shared_ptr<Engine> engine_;
};

// Returns the engine's tokenizer; the pointer also keeps the lease.
std::shared_ptr<const Tokenizer> tokenizer_of_lease(ModelLeasePtr lease);

// Reads the header of a model's file, without the weights.
ModelHeader read_model_header(const ModelFile& file);

// The headers of models' files. Reads each file once, and again after it was replaced. Thread-safe.
class ModelHeaders {
 public:
  ModelHeader of(const HostedModel& model);

 private:
  struct Known {
    uint64_t file_bytes = 0;
    int64_t created_s = 0;
    ModelHeader header;
  };
  std::mutex mutex_;
  std::map<std::string, Known> by_path_;
};

}  // namespace ibid::serve
