// A conversation that is kept under a name: its lock, and which of its branches is in which file. Files are written
// in an order that loses nothing if the process ends at any point: first what is left behind, then the conversation
// itself; then what is no longer needed is removed.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "apps/chat/branches.h"
#include "apps/sessions/session_files.h"
#include "base/result.h"
#include "runtime/session/chat_session.h"

namespace ibid {

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
