// Branches: the branches of one conversation. The current branch grows; /edit, /regen, /undo, /clear and similar
// commands leave the other branches unchanged. Commands lose no messages: messages that they replace stay as a branch,
// and /undo returns to it.
//
// An inactive branch is a ChatBackend in memory, or a file that is read on demand. A branch whose messages are a prefix
// of another branch is neither listed nor saved. Not thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/chat/chat_backend.h"
#include "apps/sessions/session_files.h"
#include "base/result.h"
#include "runtime/session/session_state.h"

namespace ibid {

class Branches {
 public:
  // REQUIRES: `now` is not nullptr.
  explicit Branches(std::unique_ptr<ChatBackend> now) : now_(std::move(now)) {}

  ChatBackend& now() { return *now_; }
  const ChatBackend& now() const { return *now_; }
  const Json& messages() const { return now_->messages(); }

  // A place in a conversation: after the first n_messages of a branch. Valid while the branch grows.
  struct Place {
    size_t branch = 0;
    size_t n_messages = 0;
  };
  Place here() const { return {now_id_, messages().size()}; }

  // --- Changes. `what` names the command, for /undo.

  // Records that the current branch has grown from n_before messages.
  void has_grown(size_t n_before, std::string what);
  // Makes `next` the current branch; the previous one becomes an inactive branch.
  void replace(std::unique_ptr<ChatBackend> next, std::string what);
  // Records that older messages of the current branch changed. `before`: the branch as it was before. what: if empty,
  // no undo step is added.
  void was_rewritten(std::unique_ptr<ChatBackend> before, std::string what);
  // Makes the branch of `place` current. If that branch has messages after `place`, a truncated copy becomes current
  // instead. The previous branch stays. Errors: those of ChatBackend::load() and fork(); kNotFound: no such branch. On
  // error nothing has changed.
  Status go(Place place, std::string what);
  // Undoes or redoes one step. Returns the name of the command that made the step. If no step is left, undo() removes
  // the last question and its answer. kNotFound: nothing to undo or redo.
  Result<std::string> undo();
  Result<std::string> redo();
  // Reverts the last step and discards the branch that it created. REQUIRES: the last step was go() to another place.
  void take_back();

  // Adds an inactive branch. Returns its number.
  size_t add(std::unique_ptr<ChatBackend> session);

  // --- Queries.

  struct View {
    size_t number = 0;
    const Json* messages = nullptr;  // nullptr: the branch's file cannot be read
    size_t n_common = 0;             // length of the common prefix with the current branch, in messages
    std::string problem;             // the reason why the file cannot be read
  };
  // Returns the inactive branches that are not prefixes of another branch, ordered by number.
  std::vector<View> others();
  // Counts the answers to message n - 1 of the current branch, which is a question. The answers are the one in this
  // branch, and those of the branches that diverge at message n.
  size_t n_answers_to(size_t n);

  // --- The file of each branch. SavedConversation writes the files.

  // Adds a branch that is read from `path` on demand. REQUIRES: no branch has this number.
  void add_file(size_t number, std::string path);
  const std::string& file_of(size_t number) const { return others_.at(number).path; }
  void set_file(size_t number, std::string path) { others_.at(number).path = std::move(path); }
  const ChatBackend* session_of(size_t number) const;
  // Records that all branches, the current one included, are now saved under another name, so that only /undo can reach
  // them. renamed() returns the new path of a branch.
  void mark_renamed(const std::function<std::string(size_t number)>& new_path);
  // Removes the oldest of others() until n are left. Returns the number removed.
  size_t forget_all_but(size_t n);
  // Records that the branch's file was removed. Removes the branch if it is not in memory.
  void set_file_gone(size_t number);
  // True if the list that others() returns may have changed since the last call of clear_changed().
  bool changed() const { return changed_; }
  void clear_changed() { changed_ = false; }
  void mark_changed() { changed_ = true; }

 private:
  struct Branch {
    std::unique_ptr<ChatBackend> session;  // nullptr: the branch is only in its file
    std::optional<Json> messages;          // messages of the file, once read
    std::string problem;                   // the reason why the file cannot be read
    std::string path;                      // path of the file; empty: the branch has no file
    bool renamed = false;
  };
  struct Step {
    Place place;
    std::string what;
  };

  const Json* messages_of(Branch& branch);
  Status load(Branch& branch);
  Status move_to(Place place);
  void
  deactivate_current();  // Makes now_ an inactive branch. The caller must then assign a new current branch to now_.
  void record(Place before, std::string what);

  std::unique_ptr<ChatBackend> now_;
  size_t now_id_ = 1;
  bool now_renamed_ = false;
  size_t next_id_ = 2;
  std::map<size_t, Branch> others_;
  std::vector<Step> undo_, redo_;
  bool changed_ = false;
};

// A conversation saved under a name: its lock, and the files of its branches. Branches are written first, then the
// conversation, and then obsolete files are removed, so that nothing is lost if the process ends at any point.
class SavedConversation {
 public:
  // Locks the name for this process, then finds its files. Errors: kInvalidArgument: not a valid name; kBusy: another
  // process has the lock.
  static Result<SavedConversation> take(SessionFiles files, std::string name);

  const std::string& name() const { return name_; }
  const SessionFiles& files() const { return files_; }
  // True if nothing was saved under this name when it was locked.
  bool is_new() const { return is_new_; }
  size_t n_branches() const { return on_disk_.size(); }
  // Returns the file name of the model that the conversation used when it was saved last; empty if the conversation is
  // new or cannot be read.
  std::string saved_with() const;

  // Opens the saved conversation, or creates a new one. Errors: kInvalidArgument if the system message differs from the
  // saved one; those of ChatSession::load() and create().
  Result<ChatSession> open(std::shared_ptr<Engine> engine, SessionOptions options) const;
  // Adds the saved branches to `branches`. REQUIRES: `branches` has only the branch that open() returned.
  void add_branches(Branches& branches) const;

  // Writes all changes to files. Errors: those of ChatBackend::save(), kIo. On error the previous files are unchanged.
  Status save(Branches& branches);
  // Writes `asked`, a copy of the current branch that ends with an unanswered question.
  Status save_question(const ChatBackend& asked) { return asked.save(files_.path(name_)); }
  // Saves everything under another name. The old name then has no branches, and the next save() starts a new
  // conversation under it. Errors: kInvalidArgument, kBusy, kDuplicate; those of save().
  Status move_to(const std::string& name, Branches& branches);

 private:
  SavedConversation(SessionFiles files, std::string name, std::unique_ptr<FileLock> lock);

  SessionFiles files_;
  std::string name_;
  std::unique_ptr<FileLock> lock_;
  bool is_new_;
  std::set<size_t> on_disk_;  // numbers of the branches that have a file
};

// Returns the last component of a model's path (file or directory).
std::string model_file_name(const std::string& path);

// Returns `name` followed by the first number that makes an unused name.
std::string free_name_like(const SessionFiles& files, const std::string& name);

}  // namespace ibid
