// TurnStream: an answer that is pulled piece by piece, where a callback does not fit.
//
//   TurnStream stream(chat, "Hello!");
//   while (std::optional<std::string> piece = stream.next()) std::cout << *piece;
//   Result<Turn> turn = stream.finish();
//
// The turn begins with the stream, and the engine computes it whether it is pulled or not; at most one answer piles
// up. No thread stands behind a stream, so one thread can pull any number of them. Streams that share a bell ring
// it when one of them has something new.
//
//   while (!all_over) {
//     for (TurnStream& stream : streams) while (auto piece = stream.poll()) show(*piece);
//     bell->wait();
//   }
//
// Until the stream is over, the session is busy and the answer is no part of the conversation. A stream comes to
// its end only in a call of next(), poll() or finish(), or in the destructor. The session must outlive the stream.
// A stream is for one thread at a time; cancel() is for any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ibid/chat_session.h"
#include "ibid/result.h"
#include "ibid/turn.h"

namespace ibid::api {

// What a thread sleeps at until one of its streams has something new. Any thread may ring(), to wake it for reasons of
// its own; wait() is for one thread at a time.
class IBID_EXPORT Bell {
 public:
  Bell();
  ~Bell();
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  void ring() noexcept;
  // Waits until the bell has rung since the last wait() returned. A ring says only that there may be news, so look
  // for news before and after.
  void wait() noexcept;

 private:
  friend struct Inside;
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

class IBID_EXPORT TurnStream {
 public:
  // These begin a turn as ChatSession::send() and its kin do. A turn that cannot begin is over at once, and
  // finish() says why.
  // bell: nullptr, or what several streams share; waited on by the thread that pulls them.
  TurnStream(ChatSession& session, std::string_view message, TurnOptions options = TurnOptions(),
             std::shared_ptr<Bell> bell = nullptr);
  static TurnStream answer(ChatSession& session, TurnOptions options = TurnOptions(),
                           std::shared_ptr<Bell> bell = nullptr);
  static TurnStream regenerate(ChatSession& session, TurnOptions options = TurnOptions(),
                               std::shared_ptr<Bell> bell = nullptr);
  static TurnStream edit(ChatSession& session, size_t message, std::string_view text,
                         TurnOptions options = TurnOptions(), std::shared_ptr<Bell> bell = nullptr);
  ~TurnStream();  // cancels, and waits for the end of the turn
  TurnStream(TurnStream&&) noexcept;
  TurnStream& operator=(TurnStream&&) = delete;

  // The next whole characters of the answer; waits for them. Nothing: the turn is over.
  std::optional<std::string> next();
  // The same without waiting. Nothing: there are none yet, or the turn is over.
  std::optional<std::string> poll();
  // Whether the turn is over and everything was pulled. Like poll() it takes up what is new.
  bool is_over();

  // Ends the answer where it is, as the stop token of the options does. The text up to there can still be pulled.
  void cancel();

  // How the turn ended, as the call would have said it; waits for the end. Pieces that were not pulled are dropped.
  // REQUIRES: called once.
  Result<Turn> finish();

 private:
  struct Parts;
  explicit TurnStream(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace ibid::api

#ifndef IBID_INSIDE  // of the library, where other classes have these names
namespace ibid {
using api::Bell;
using api::TurnStream;
}  // namespace ibid
#endif
