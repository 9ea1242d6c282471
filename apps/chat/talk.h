// Talk: one conversation as the screen leads it, wherever its answers come from: an engine in this process
// (local_talk.h) or a server (remote_talk.h). What an implementation cannot do it says with
// kUnsupported and in words for a person, and nothing has changed then.
//
// A call that fails leaves it as it was. For one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_ops.h"
#include "base/json_limits.h"
#include "base/result.h"
#include "ibid/session_options.h"
#include "ibid/turn.h"

namespace ibid {

struct SamplingOption;

class Talk {
 public:
  static constexpr size_t kMaxAnswers = 16;

  virtual ~Talk() = default;
  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;

  // [{"role": ..., "content": ...}, ...] as committed.
  virtual const Json& messages() const = 0;

  // --- answers, as ChatSession has them
  virtual Result<Turn> send(std::string_view message, const TurnOptions& options, const TurnCallback& on_event) = 0;
  virtual Result<Turn> answer(const TurnOptions& options, const TurnCallback& on_event) = 0;
  virtual Result<Turn> regenerate(const TurnOptions& options, const TurnCallback& on_event) = 0;
  using AnswersCallback = std::function<void(size_t answer, const TurnEvent&)>;
  virtual Result<std::vector<Turn>> send_for_answers(std::string_view message, size_t n, const TurnOptions& options,
                                                     const AnswersCallback& on_event) = 0;
  virtual Status choose(size_t answer) = 0;

  // --- changes
  virtual Status append(Json message) = 0;
  virtual Status rewind_to(size_t n_messages) = 0;
  virtual Status set_history(Json messages) = 0;
  virtual Status reset() = 0;
  virtual Status set_system(std::string_view text) = 0;
  virtual Status pin(size_t message) = 0;
  virtual Status set_when_full(WhenFull policy) = 0;
  virtual Result<std::unique_ptr<Talk>> fork() const = 0;

  // --- files. Ok: conversations of this kind are kept in files.
  virtual Status can_be_kept() const = 0;
  virtual Status save(const std::string& path) const = 0;
  // Another one of this kind, which save() wrote.
  virtual Result<std::unique_ptr<Talk>> load(const std::string& path) const = 0;
  virtual FileOps& files() const = 0;

  // --- what there is to know
  // nullopt: only the server knows.
  virtual std::optional<size_t> count_tokens(std::string_view text) const = 0;
  virtual std::optional<WhenFull> when_full() const = 0;
  // Whether a message of so many bytes may make a full context drop some of the history.
  virtual bool is_room_short(size_t n_bytes) const = 0;
  // A person has set this option of the answers. kUnsupported: it means nothing here.
  virtual Status take_over(const SamplingOption& option) = 0;
  // Whether the value in TurnOptions counts; else whoever answers decides.
  virtual bool decides(const SamplingOption& option) const = 0;
  // Lines for /model and /stats.
  virtual std::vector<std::string> describe_model() const = 0;
  virtual std::vector<std::string> describe_costs() = 0;

 protected:
  Talk() = default;
};

}  // namespace ibid
