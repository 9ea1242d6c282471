// ModelHost: the models of a server by name. A model is loaded when it is first asked for, within a memory budget, and
// unloaded when nobody has asked for a while.
//
// Whoever uses a model has a lease of it, and a model with a lease stays loaded. Others may hold its engine besides, as
// long as they let go of it when the host asks them to (set_on_unload()): known conversations do.
//
// What a model costs is its file and the keys and values that it may have. Where the budget is used up, models without
// leases are unloaded, the one first that was not used for the longest time. A model whose file was replaced stays what
// it was for those who use it (its weights are in memory). Whoever asks for it from then on waits until they are done
// and gets the new one, so that no two are in memory at once.
//
// Thread-safe. Loading one model does not hold up others that are loaded.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
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
#include "runtime/engine/engine.h"

namespace ibid::serve {

// A model of the command line.
struct ModelSource {
  ModelSource(std::string its_path, std::vector<std::string> its_aliases = {})
      : path(std::move(its_path)), aliases(std::move(its_aliases)) {}

  std::string path;
  std::vector<std::string> aliases;         // other names that it is asked for by
  TurnOptions recommended = TurnOptions();  // of its answers, where a request says nothing
};

class ModelLease;
using ModelLeasePtr = std::shared_ptr<const ModelLease>;

struct HostedModel {
  std::string name;           // "smollm2-135m-instruct.q4_1": of its file, without the ending
  std::string path;
  uint64_t file_bytes = 0;
  int64_t created_s = 0;      // of its file, seconds since 1970
  bool is_loaded = false;
  std::shared_ptr<Engine> engine = nullptr;  // where it is loaded, with a lease
};

struct ModelHostOptions {
  uint64_t memory_budget_bytes = 0;          // of all loaded models' files and keys and values; 0: no limit
  std::chrono::milliseconds keep_alive{-1};  // unload after so long without a user; < 0: never
  bool load_at_once = true;                  // the first model, in create(), so that errors come before the port opens
  std::function<void(const std::string&)> remark = {};  // a line about a model, for who reads the log
};

class ModelHost {
 public:
  // How an engine is made of a path; tests give fakes.
  using Loader = std::function<Result<std::shared_ptr<Engine>>(const std::string& path)>;

  // Errors: kInvalidArgument: two models of one name, or none; those of the loader.
  static Result<std::unique_ptr<ModelHost>> create(std::vector<ModelSource> sources, Loader loader, Clock& clock,
                                                   const ModelHostOptions& options);
  ~ModelHost();

  // name, of all that follow: as resolve() has it. Errors of all: kNotFound: there is no such model.

  // Loads it if need be, on this thread; a second call for the same model waits for the first, and for those who use
  // what has to go before. Errors: kOutOfMemory: the budget, with both numbers; the loader's, which name its file.
  Result<ModelLeasePtr> get(std::string_view name);
  // The same where nothing has to be loaded or waited for; else null.
  Result<ModelLeasePtr> get_loaded(std::string_view name);
  // The same as get(), but null where others use what has to go before: ask again when n_returned() has changed. It is
  // for clients: what the loader said goes to the remarks, and its error is kIo and names the model alone.
  Result<ModelLeasePtr> try_get(std::string_view name);
  // How many leases were given back.
  uint64_t n_returned() const;

  // The name of the model that a request means: by its name, or an alias, in any case of letters, also with the tag
  // ":latest" that Ollama's clients add; the first model's where the given one is empty.
  Result<std::string> resolve(std::string_view name) const;
  Result<TurnOptions> recommended(std::string_view name) const;
  // As the command line had them.
  std::vector<HostedModel> list() const;

  // How long this one stays from now on until it is unloaded, whatever the options say.
  Status set_keep_alive(std::string_view name, std::chrono::milliseconds keep_alive);
  // Unloads what nobody has used for so long. It may wait for the disk.
  void unload_idle();

  // Called in front of every unloading, with no lock held and no lease left, for whoever holds the engine besides: he
  // lets go of it. Set before any other thread calls.
  void set_on_unload(std::function<void(const Engine&)> on_unload) { on_unload_ = std::move(on_unload); }

 private:
  friend class ModelLease;
  struct Model;
  struct Board;
  struct FileState {
    uint64_t bytes = 0;
    int64_t changed_ns = 0;
    // The SHA-256 of the names, inodes, sizes and times of all files. The time of the last change of an inode is one of
    // them: no program can set it, so that a file of equal size and modification time is another one all the same.
    Sha256Digest identity{};
    bool operator==(const FileState&) const = default;
  };
  using Lock = std::unique_lock<std::mutex>;
  static Result<FileState> look_at(const std::string& path);

  ModelHost(Loader loader, Clock& clock, const ModelHostOptions& options);
  Result<Model*> find(std::string_view name) const;
  bool is_stale(const Model& model) const;
  ModelLeasePtr lend(Model& model) const;
  Result<ModelLeasePtr> get_if_free(Model& model, Lock& lock);
  Result<ModelLeasePtr> load(Model& model, Lock& lock);
  // Lets go of models until `bytes` more fit. False: they will when others have given back. Error: kOutOfMemory: never.
  Result<bool> make_room(const Model& wants, uint64_t bytes, Lock& lock);
  uint64_t n_bytes_loaded() const;
  void let_go(Model& model, Lock& lock);

  Loader loader_;
  Clock& clock_;
  ModelHostOptions options_;
  std::function<void(const Engine&)> on_unload_;
  const std::shared_ptr<Board> board_;  // its lock guards each Model; leases may outlive the host
  std::vector<std::shared_ptr<Model>> models_;
};

// The right to use a loaded model. It is given back when the last pointer to it goes.
class ModelLease {
 public:
  ModelLease(std::shared_ptr<ModelHost::Board> board, std::shared_ptr<ModelHost::Model> model, Clock* clock);
  ~ModelLease();
  ModelLease(const ModelLease&) = delete;
  ModelLease& operator=(const ModelLease&) = delete;

  // A copy of this pointer is no lease.
  const std::shared_ptr<Engine>& engine() const { return engine_; }

 private:
  const std::shared_ptr<ModelHost::Board> board_;
  const std::shared_ptr<ModelHost::Model> model_;
  Clock* const clock_;  // nullptr: who looks at a model does not count as its user when it comes to being idle
  std::shared_ptr<Engine> engine_;
};

// The engine's tokenizer, with the lease.
std::shared_ptr<const Tokenizer> tokenizer_of_lease(ModelLeasePtr lease);

}  // namespace ibid::serve
