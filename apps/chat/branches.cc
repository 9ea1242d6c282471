#include "apps/chat/branches.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "apps/sessions/message_text.h"
#include "apps/sessions/session_files.h"
#include "apps/terminal/output.h"
#include "base/checked.h"
#include "runtime/session/session_file.h"

namespace ibid {

namespace {

size_t n_common(const Json& a, const Json& b) {
  size_t n = 0;
  while (n < std::min(a.size(), b.size()) && a[n] == b[n]) ++n;
  return n;
}

bool begins(const Json& shorter, const Json& longer) {
  return shorter.size() <= longer.size() && n_common(shorter, longer) == shorter.size();
}

// Keeps the first n messages, the last of which may be an unanswered question.
Status cut(ChatBackend& session, size_t n) {
  const Json& messages = session.messages();
  if (n == messages.size()) return {};
  if (n == 0 || !is_from(messages[n - 1], Role::kUser)) return session.rewind_to(n);
  Json kept = Json::array();
  for (size_t i = 0; i < n; ++i) kept.push_back(messages[i]);
  return session.set_history(std::move(kept));
}

// Returns the index of the last question; nullopt: no question.
std::optional<size_t> begin_of_last_turn(const Json& messages) {
  const size_t question = last_from(messages, Role::kUser);
  if (question == messages.size()) return std::nullopt;
  return question;
}

}  // namespace

void Branches::record(Place before, std::string what) {
  undo_.push_back({before, std::move(what)});
  redo_.clear();
}

void Branches::has_grown(size_t n_before, std::string what) {
  record({now_id_, n_before}, std::move(what));
  now_renamed_ = false;
}

void Branches::deactivate_current() {
  changed_ = true;
  Branch& left = others_[now_id_];
  left.session = std::move(now_);
  left.renamed = now_renamed_;
}

void Branches::replace(std::unique_ptr<ChatBackend> next, std::string what) {
  record(here(), std::move(what));
  deactivate_current();
  now_ = std::move(next);
  now_id_ = next_id_++;
  now_renamed_ = false;
}

void Branches::was_rewritten(std::unique_ptr<ChatBackend> before, std::string what) {
  if (!what.empty()) record({now_id_, before->messages().size()}, std::move(what));
  others_[now_id_].session = std::move(before);
  now_id_ = next_id_++;
  now_renamed_ = false;
  changed_ = true;
}

size_t Branches::add(std::unique_ptr<ChatBackend> session) {
  changed_ = true;
  others_[next_id_].session = std::move(session);
  return next_id_++;
}

Status Branches::load(Branch& branch) {
  if (branch.session) return {};
  TRY_ASSIGN(branch.session, now_->load(branch.path));
  return {};
}

const Json* Branches::messages_of(Branch& branch) {
  if (branch.session) return &branch.session->messages();
  if (branch.messages) return &*branch.messages;
  if (!branch.problem.empty()) return nullptr;
  Result<SavedSession> saved = read_saved_session(now_->files(), branch.path);
  if (!saved.ok()) {
    branch.problem = saved.status().message();
    return nullptr;
  }
  branch.messages = std::move(saved->messages);
  return &*branch.messages;
}

Status Branches::move_to(Place place) {
  ChatBackend* from = now_.get();
  if (place.branch == now_id_) {
    if (place.n_messages == messages().size()) return {};
  } else {
    const auto found = others_.find(place.branch);
    if (found == others_.end()) return {ErrorCode::kNotFound, "unknown branch " + std::to_string(place.branch)};
    TRY(load(found->second));
    from = found->second.session.get();
    if (place.n_messages >= from->messages().size()) {
      std::unique_ptr<ChatBackend> next = std::move(found->second.session);
      const bool renamed = found->second.renamed;
      others_.erase(found);
      deactivate_current();
      now_ = std::move(next);
      now_id_ = place.branch;
      now_renamed_ = renamed;
      return {};
    }
  }
  TRY_ASSIGN(std::unique_ptr<ChatBackend> copy, from->fork());
  TRY(cut(*copy, place.n_messages));
  deactivate_current();
  now_ = std::move(copy);
  now_id_ = next_id_++;
  now_renamed_ = false;
  return {};
}

Status Branches::go(Place place, std::string what) {
  const Place before = here();
  TRY(move_to(place));
  record(before, std::move(what));
  return {};
}

Result<std::string> Branches::undo() {
  Step step;
  if (!undo_.empty()) {
    step = undo_.back();
  } else if (const std::optional<size_t> begin = begin_of_last_turn(messages()); begin) {
    step = {{now_id_, *begin}, "the last message and its answer"};
  } else {
    return Status(ErrorCode::kNotFound, "nothing to undo");
  }
  const Place before = here();
  TRY(move_to(step.place));
  if (!undo_.empty()) undo_.pop_back();
  redo_.push_back({before, step.what});
  return step.what;
}

Result<std::string> Branches::redo() {
  if (redo_.empty()) return Status(ErrorCode::kNotFound, "nothing to redo");
  Step step = redo_.back();
  const Place before = here();
  TRY(move_to(step.place));
  redo_.pop_back();
  undo_.push_back({before, step.what});
  return step.what;
}

void Branches::take_back() {
  const Step step = undo_.back();
  const size_t left = now_id_;
  if (!move_to(step.place).ok()) return;  // if the file cannot be read, the step stays, and /undo can revert it later
  undo_.pop_back();
  others_.erase(left);
}

std::vector<Branches::View> Branches::others() {
  std::vector<View> views;
  for (auto& [number, branch] : others_) {
    if (branch.renamed) continue;
    const Json* messages = messages_of(branch);
    if (messages == nullptr) {
      views.push_back({number, nullptr, 0, branch.problem});
    } else if (!begins(*messages, this->messages())) {
      views.push_back({number, messages, n_common(*messages, this->messages()), ""});
    }
  }
  // List only the first of several branches with equal messages.
  std::vector<View> worth;
  for (const View& view : views) {
    const bool is_part = view.messages != nullptr && std::any_of(views.begin(), views.end(), [&](const View& other) {
                           if (other.messages == nullptr || other.number == view.number) return false;
                           const bool same = other.messages->size() == view.messages->size();
                           return (!same || other.number < view.number) && begins(*view.messages, *other.messages);
                         });
    if (!is_part) worth.push_back(view);
  }
  return worth;
}

size_t Branches::n_answers_to(size_t n) {
  size_t n_answers = messages().size() > n ? 1 : 0;
  for (auto& [number, branch] : others_) {
    const Json* other = messages_of(branch);
    if (other != nullptr && other->size() > n && n_common(*other, messages()) == n) ++n_answers;
  }
  return n_answers;
}

void Branches::add_file(size_t number, std::string path) {
  others_[number].path = std::move(path);
  next_id_ = std::max(next_id_, number + 1);
  if (now_id_ <= number) now_id_ = next_id_++;
}

size_t Branches::forget_all_but(size_t n) {
  const std::vector<View> views = others();
  const size_t n_gone = saturating_sub(views.size(), n);
  for (size_t i = 0; i < n_gone; ++i) {
    const size_t gone = views[i].number;
    others_.erase(gone);
    const auto leads_there = [gone](const Step& step) { return step.place.branch == gone; };
    std::erase_if(undo_, leads_there);
    std::erase_if(redo_, leads_there);
  }
  changed_ = changed_ || n_gone > 0;
  return n_gone;
}

void Branches::set_file_gone(size_t number) {
  const auto found = others_.find(number);
  if (found == others_.end()) return;
  found->second.path.clear();
  if (!found->second.session) others_.erase(found);
}

const ChatBackend* Branches::session_of(size_t number) const { return others_.at(number).session.get(); }

void Branches::mark_renamed(const std::function<std::string(size_t number)>& new_path) {
  now_renamed_ = true;
  for (auto& [number, branch] : others_) {
    branch.renamed = true;
    if (!branch.path.empty()) branch.path = new_path(number);
  }
}

SavedConversation::SavedConversation(SessionFiles files, std::string name, std::unique_ptr<FileLock> lock)
    : files_(std::move(files)), name_(std::move(name)), lock_(std::move(lock)), is_new_(!files_.exists(name_)) {
  if (const Result<std::vector<size_t>> numbers = files_.branches(name_); numbers.ok()) {
    on_disk_.insert(numbers->begin(), numbers->end());
  }
}

Result<SavedConversation> SavedConversation::take(SessionFiles files, std::string name) {
  TRY(check_session_name(name));
  TRY_ASSIGN(std::unique_ptr<FileLock> lock, files.lock(name));
  return SavedConversation(std::move(files), std::move(name), std::move(lock));
}

Result<ChatSession> SavedConversation::open(std::shared_ptr<Engine> engine, SessionOptions options) const {
  if (is_new_) return ChatSession::create(std::move(engine), std::move(options));
  TRY_ASSIGN(ChatSession session, ChatSession::load(std::move(engine), files_.path(name_)));
  if (session.load_warnings().any()) {
    remark("ibid: all messages of '" + name_ +
           "' were restored, but not these parts: " + session.load_warnings().to_string());
  }
  const Json& messages = session.state().messages();
  const bool has_system = !messages.empty() && is_from(messages[0], Role::kSystem);
  if (!options.system.empty() && (!has_system || text_of(messages[0]) != options.system)) {
    return {ErrorCode::kInvalidArgument,
            "the kept conversation has another system message; leave --system out, or "
            "begin anew with /system"};
  }
  return session;
}

std::string SavedConversation::saved_with() const {
  if (is_new_) return "";
  const Result<SavedSession> saved = read_saved_session(files_.ops(), files_.path(name_));
  return saved.ok() ? model_file_name(saved->model_name) : "";
}

void SavedConversation::add_branches(Branches& branches) const {
  for (const size_t number : on_disk_) branches.add_file(number, files_.branch_path(name_, number));
}

Status SavedConversation::save(Branches& branches) {
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
  branches.clear_changed();
  return {};
}

Status SavedConversation::move_to(const std::string& name, Branches& branches) {
  TRY(check_session_name(name));
  if (name == name_) return {ErrorCode::kDuplicate, "the conversation already has this name"};
  TRY_ASSIGN(const std::unique_ptr<FileLock> lock, files_.lock(name));
  if (files_.exists(name)) {
    return {ErrorCode::kDuplicate, "a conversation '" + name + "' already exists; choose another name"};
  }
  TRY(save(branches));
  TRY(branches.now().save(files_.path(name)));
  TRY(files_.rename_branches(name_, name));
  branches.mark_renamed([&](size_t number) { return files_.branch_path(name, number); });
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
