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
//   for (; !all_over; bell->wait())
//     for (TurnStream& stream : streams) while (auto piece = stream.poll()) show(*piece);
//
// poll_event() also gives how far the prompt is read, and what the answer says (TurnOptions::parse_reply). begun()
// says what is known once the turn has begun.
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
#include <vector>

#include "base/result.h"
#include "runtime/scheduler/bell.h"
#include "runtime/session/chat_session.h"
#include "templates/reply/reply_parser.h"

namespace ibid {

class TurnStream {
 public:
  // These begin a turn as ChatSession::send() and its kin do. A turn that cannot begin is over at once, and
  // finish() says why.
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
  // The next of the answer, or how far the prompt is read, without waiting. Who calls it calls neither next() nor
  // poll().
  struct Event {
    enum class Kind { kPrefill, kText, kPart, kLogprobs };
    Kind kind = Kind::kText;
    std::string text = {};  // kText: whole characters, never empty
    size_t n_done = 0;      // kPrefill: positions of the prompt that have keys and values
    ReplyEvent part = {};   // kPart: with TurnOptions::parse_reply, in place of texts
    // kLogprobs: with TurnOptions::n_logprobs, of the next ids, in front of their text. Those of ids that end the
    // answer may come with the turn alone.
    std::vector<TokenLogprobs> logprobs = {};
  };
  std::optional<Event> poll_event();
  // What is known of the turn since it began: usage.n_prompt, seed, left_out and lost_prefix. nullptr: it could not
  // begin, or is over.
  const Turn* begun() const;
  // Whether the turn is over and everything was pulled. Like poll() it takes up what is new.
  bool is_over();

  // Ends the answer where it is, as the stop token of the options does. The text up to there can still be pulled.
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
