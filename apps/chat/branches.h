// The branches of one conversation: the present one, which grows, and the others, which were left by /edit, /regen,
// /undo, /clear and the like and stay as they are. Nothing that was said is lost: what a command leaves behind is a
// branch, and /undo returns to it.
//
// A branch at rest is a Talk, or a file that is read when it is wanted. Their messages alone decide which
// branches are worth showing and keeping: one that is the beginning of another, or of the present one, is not. For
// one thread.
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

#include "apps/chat/talk.h"
#include "apps/sessions/session_files.h"
#include "base/result.h"
#include "runtime/session/chat_session.h"

namespace ibid {

class Branches {
 public:
  // REQUIRES: not nullptr.
  explicit Branches(std::unique_ptr<Talk> now) : now_(std::move(now)) {}

  Talk& now() { return *now_; }
  const Talk& now() const { return *now_; }
  const Json& messages() const { return now_->messages(); }

  // A place in a branch: behind its first n_messages. It stays valid while the branch grows.
  struct Place {
    size_t branch = 0;
    size_t n_messages = 0;
  };
  Place here() const { return {now_id_, messages().size()}; }

  // --- changes. `what` is the command, as /undo names it.

  // The present branch has grown: it had n_before messages.
  void has_grown(size_t n_before, std::string what);
  // `next` becomes the present branch; the one before stays.
  void replace(std::unique_ptr<Talk> next, std::string what);
  // The present branch was changed in its older messages; `before` is how it was. what: empty: no step of its own.
  void was_rewritten(std::unique_ptr<Talk> before, std::string what);
  // Goes to a place; the present branch stays. Where the branch has grown since, a copy of its beginning is taken.
  // Errors: those of Talk::load() and fork(); kNotFound: no such branch. Nothing has changed then.
  Status go(Place place, std::string what);
  // One step back or forth; returns its `what`. With nothing to undo, the last question and its answer are taken back.
  // kNotFound: nothing to undo.
  Result<std::string> undo();
  Result<std::string> redo();
  // The last recorded change never was; what it made is forgotten. REQUIRES: it was go() to another place.
  void take_back();

  // A branch beside the present one, which stays where it is. Returns its number.
  size_t add(std::unique_ptr<Talk> session);

  // --- what there is

  struct View {
    size_t number = 0;
    const Json* messages = nullptr;  // nullptr: its file cannot be read
    size_t n_common = 0;             // messages at the beginning that are the present branch's too
    std::string problem;             // why it cannot be read
  };
  // The branches that are worth it, in the order of their numbers.
  std::vector<View> others();
  // How many answers are known to the question that ends the first n messages of the present branch.
  size_t n_answers_to(size_t n);

  // --- files: which branch is in which. The files themselves are KeptConversation's.

  // A branch that is read from `path` when it is wanted. REQUIRES: no other has this number.
  void add_file(size_t number, std::string path);
  const std::string& file_of(size_t number) const { return others_.at(number).path; }
  void set_file(size_t number, std::string path) { others_.at(number).path = std::move(path); }
  const Talk* session_of(size_t number) const;
  // All of them, the present one included, are kept under another name now: they stay for /undo alone.
  // renamed: what became of a path.
  void keep_elsewhere(const std::function<std::string(size_t number)>& renamed);
  // Forgets the oldest of others() beyond so many. Returns how many went.
  size_t forget_all_but(size_t n);
  // The file is removed. A branch that was never read goes with it.
  void set_file_gone(size_t number);
  // Whether others() may have changed since is_kept().
  bool changed() const { return changed_; }
  void is_kept() { changed_ = false; }
  void mark_changed() { changed_ = true; }

 private:
  struct Branch {
    std::unique_ptr<Talk> session;  // nullptr: in the file
    std::optional<Json> messages;        // of the file, when they were read
    std::string problem;                 // why they could not be
    std::string path;                    // empty: in no file
    bool elsewhere = false;
  };
  struct Step {
    Place place;
    std::string what;
  };

  const Json* messages_of(Branch& branch);
  Status load(Branch& branch);
  Status move_to(Place place);
  void put_aside();  // the present branch, for now_ to be assigned
  void record(Place before, std::string what);

  std::unique_ptr<Talk> now_;
  size_t now_id_ = 1;
  bool now_elsewhere_ = false;
  size_t next_id_ = 2;
  std::map<size_t, Branch> others_;
  std::vector<Step> undo_, redo_;
  bool changed_ = false;
};

// A conversation that is kept under a name: its lock, and which of its branches is in which file. Files are written
// in an order that loses nothing if the process ends at any point: first what is left behind, then the conversation
// itself; then what is no longer needed is removed.
class KeptConversation {
 public:
  // Takes the name for this process, and then looks what is there.
  // Errors: kInvalidArgument: no name; kBusy: another process has it.
  static Result<KeptConversation> take(SessionFiles files, std::string name);

  const std::string& name() const { return name_; }
  const SessionFiles& files() const { return files_; }
  // Whether there was nothing under this name when it was taken.
  bool is_new() const { return is_new_; }
  size_t n_branches() const { return on_disk_.size(); }
  // The file name of the model that it was saved with last; empty when it is new, or cannot be read.
  std::string saved_with() const;

  // The conversation as it was kept, or a new one. Errors: kInvalidArgument for a system message that is not the kept
  // one's; those of ChatSession::load() and create().
  Result<ChatSession> open(std::shared_ptr<Engine> engine, SessionOptions options) const;
  // Makes known which other branches there are. REQUIRES: `branches` holds nothing but what open() returned.
  void add_branches(Branches& branches) const;

  // Writes what has changed. Error: kIo and others of Talk::save(); what was kept before is still there then.
  Status save(Branches& branches);
  // Writes the present branch as it is with a question that waits for its answer.
  Status save_question(const Talk& asked) { return asked.save(files_.path(name_)); }
  // Keeps all of it under another name, and leaves this one empty of branches: the next save() begins it anew.
  // Errors: kInvalidArgument, kBusy, kDuplicate; those of save().
  Status move_to(const std::string& name, Branches& branches);

 private:
  KeptConversation(SessionFiles files, std::string name, std::unique_ptr<FileLock> lock);

  SessionFiles files_;
  std::string name_;
  std::unique_ptr<FileLock> lock_;
  bool is_new_;
  std::set<size_t> on_disk_;  // branches with a file
};

// The last name of a model's path, be it a file or a directory.
std::string model_file_name(const std::string& path);

// A name that is free: `name` with a number behind it.
std::string free_name_like(const SessionFiles& files, const std::string& name);

}  // namespace ibid
