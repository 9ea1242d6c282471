#include "apps/chat/kept_conversation.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "apps/sessions/message_text.h"
#include "apps/sessions/session_name.h"
#include "apps/terminal/remark.h"

namespace ibid {

KeptConversation::KeptConversation(SessionFiles files, std::string name, std::unique_ptr<FileLock> lock)
    : files_(std::move(files)), name_(std::move(name)), lock_(std::move(lock)), is_new_(!files_.exists(name_)) {
  if (const Result<std::vector<size_t>> numbers = files_.branches(name_); numbers.ok()) {
    on_disk_.insert(numbers->begin(), numbers->end());
  }
}

Result<KeptConversation> KeptConversation::take(SessionFiles files, std::string name) {
  TRY(check_session_name(name));
  TRY_ASSIGN(std::unique_ptr<FileLock> lock, files.lock(name));
  return KeptConversation(std::move(files), std::move(name), std::move(lock));
}

Result<ChatSession> KeptConversation::open(std::shared_ptr<Engine> engine, SessionOptions options) const {
  if (is_new_) return ChatSession::create(std::move(engine), std::move(options));
  TRY_ASSIGN(ChatSession session, ChatSession::load(std::move(engine), files_.path(name_)));
  if (session.losses().any()) {
    remark("ibid: all messages of '" + name_ + "' are there; lost were " + session.losses().to_string());
  }
  const Json& messages = session.messages();
  const bool has_system = !messages.empty() && is_from(messages[0], Role::kSystem);
  if (!options.system.empty() && (!has_system || text_of(messages[0]) != options.system)) {
    return {ErrorCode::kInvalidArgument, "the kept conversation has another system message; leave --system out, or "
                                         "begin anew with /system"};
  }
  return session;
}

std::string KeptConversation::saved_with() const {
  if (is_new_) return "";
  const Result<SavedSession> saved = read_saved_session(files_.ops(), files_.path(name_));
  return saved.ok() ? model_file_name(saved->model_name) : "";
}

void KeptConversation::add_branches(Branches& branches) const {
  for (const size_t number : on_disk_) branches.add_file(number, files_.branch_path(name_, number));
}

Status KeptConversation::save(Branches& branches) {
  if (!branches.changed()) return branches.now().save(files_.path(name_));
  std::set<size_t> wanted;
  for (const Branches::View& view : branches.others()) {
    wanted.insert(view.number);
    if (!branches.file_of(view.number).empty()) continue;
    const std::string path = files_.branch_path(name_, view.number);
    TRY(branches.session_of(view.number)->save(path));
    on_disk_.insert(view.number);
    branches.set_file(view.number, path);
  }
  TRY(branches.now().save(files_.path(name_)));
  const std::set<size_t> before = std::exchange(on_disk_, wanted);
  for (const size_t number : before) {
    if (wanted.contains(number)) continue;
    branches.set_file_gone(number);
    TRY(files_.ops().remove(files_.branch_path(name_, number)));
  }
  branches.is_kept();
  return {};
}

Status KeptConversation::move_to(const std::string& name, Branches& branches) {
  TRY(check_session_name(name));
  if (name == name_) return {ErrorCode::kDuplicate, "this is the name that it has; take another one"};
  TRY_ASSIGN(const std::unique_ptr<FileLock> lock, files_.lock(name));
  if (files_.exists(name)) {
    return {ErrorCode::kDuplicate, "there is a conversation '" + name + "' already; take another name"};
  }
  TRY(save(branches));
  TRY(branches.now().save(files_.path(name)));
  TRY(files_.rename_branches(name_, name));
  branches.keep_elsewhere([&](size_t number) { return files_.branch_path(name, number); });
  on_disk_.clear();
  return {};
}

std::string model_file_name(const std::string& path) {
  const std::filesystem::path whole(path);
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

std::string free_name_like(const SessionFiles& files, const std::string& name) {
  size_t number = 2;
  std::string free = name + "-2";
  while (files.exists(free)) free = name + "-" + std::to_string(++number);
  return free;
}

}  // namespace ibid
