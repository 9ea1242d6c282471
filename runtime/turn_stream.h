// TurnStream: an answer that is pulled piece by piece, where a callback does not fit.
//
//   TurnStream stream(chat, "Hello!");
//   while (std::optional<std::string> piece = stream.next()) std::cout << *piece;
//   Result<Turn> turn = stream.finish();
//
// The turn begins with the stream, and the engine computes it whether it is pulled or not: what was not pulled yet is
// a part of one answer at most. There is no thread behind a stream, so one thread can pull any number of them: those
// that share a bell ring it when any of them has something new.
//
//   while (!all_over) {
//     for (TurnStream& stream : streams) while (auto piece = stream.poll()) show(*piece);
//     bell->wait();
//   }
//
// The session is busy, and its answer no part of the conversation, until the stream is over: some call of next(),
// poll(), finish() or the destructor has to come for that. It must outlive the stream. One thread at a time, but
// cancel(), which is for any.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "runtime/bell.h"
#include "runtime/chat_session.h"

namespace ibid {

class TurnStream {
 public:
  // As ChatSession::send() and its kin. A turn that cannot begin is over at once, and finish() says why.
  // bell: nullptr, or what several streams share; waited on by the thread that pulls them.
  TurnStream(ChatSession& session, std::string_view message, TurnOptions options = {},
             std::shared_ptr<Bell> bell = nullptr);
  static TurnStream answer(ChatSession& session, TurnOptions options = {}, std::shared_ptr<Bell> bell = nullptr);
  static TurnStream regenerate(ChatSession& session, TurnOptions options = {}, std::shared_ptr<Bell> bell = nullptr);
  static TurnStream edit(ChatSession& session, size_t message, std::string_view text, TurnOptions options = {},
                         std::shared_ptr<Bell> bell = nullptr);
  ~TurnStream();  // cancels, and waits for the end of the turn
  TurnStream(TurnStream&&) noexcept;
  TurnStream& operator=(TurnStream&&) = delete;

  // The next whole characters of the answer; waits for them. Nothing: the turn is over.
  std::optional<std::string> next();
  // The same without waiting. Nothing: there are none yet, or the turn is over.
  std::optional<std::string> poll();
  // Whether the turn is over and everything was pulled. As poll() it looks what there is.
  bool is_over();

  // Ends the answer where it is, as the stop token of the options does, which works too. What it has come to can
  // still be pulled.
  void cancel();

  // How the turn ended, as the call would have said it; waits for the end. Pieces that were not pulled are dropped.
  // REQUIRES: called once.
  Result<Turn> finish();

 private:
  class Pulled;
  explicit TurnStream(std::unique_ptr<Pulled> pulled);

  std::unique_ptr<Pulled> pulled_;  // null: there was no memory for it
};

}  // namespace ibid
