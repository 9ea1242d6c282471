// TurnStream: an answer that is pulled piece by piece, where a callback does not fit.
//
//   TurnStream stream(chat, "Hello!");
//   while (std::optional<std::string> piece = stream.next()) std::cout << *piece;
//   Result<Turn> turn = stream.finish();
//
// The turn runs on a thread of the stream's own and does not wait to be pulled: what was not pulled yet is a part of
// one answer at most. The session is busy until the turn is over, and must outlive the stream. next(), finish() and the
// destructor are for one thread; cancel() is for any.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "base/result.h"
#include "runtime/chat_session.h"

namespace ibid {

class TurnStream {
 public:
  // What runs: any call of a session that gives a turn.
  using Ask = std::function<Result<Turn>(const TurnOptions& options, const TurnCallback& on_event)>;

  // Without memory or a thread for it the stream is over at once, and finish() says kOutOfMemory.
  TurnStream(ChatSession& session, std::string message, TurnOptions options = {});
  TurnStream(Ask ask, TurnOptions options);
  ~TurnStream();  // cancels, and waits for the end of the turn
  TurnStream(const TurnStream&) = delete;
  TurnStream& operator=(const TurnStream&) = delete;

  // The next whole characters of the answer; waits for them. Nothing: the turn is over.
  std::optional<std::string> next();

  // As the stop token of the options does, which works too.
  void cancel() { stop_.request_stop(); }

  // How the turn ended, as the call would have said it; waits for the end. Pieces that were not pulled are dropped.
  // REQUIRES: called once.
  Result<Turn> finish();

 private:
  void start(Ask ask, TurnOptions options);
  void run(const Ask& ask, TurnOptions& options);
  void end(Result<Turn> turn);

  std::stop_source stop_{std::nostopstate};  // no memory until start()
  std::mutex mutex_;  // guards what follows
  std::condition_variable moved_;
  std::list<std::string> pieces_;
  bool over_ = false;
  std::optional<Result<Turn>> outcome_;
  std::thread thread_;
};

}  // namespace ibid
