#include "server/http/reply.h"

#include <utility>

#include "base/check.h"

namespace ibid::http {

namespace {

double ms_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Reply::Reply(ExchangeRecord record, size_t max_queued_bytes, std::shared_ptr<const OnRecord> report)
    : max_queued_bytes_(max_queued_bytes), report_(std::move(report)), record_(std::move(record)) {}

Reply::~Reply() {
  record_.client_gone = is_lost_ && !wants_no_more_ && (has_lost_bytes_ || !is_taken());
  if (record_.total_ms == 0) record_.total_ms = ms_since(begin_);
  if (report_ != nullptr && *report_) (*report_)(record_);
}

void Reply::wake_up() {
  if (is_woken_ || !wake_) return;
  is_woken_ = true;
  wake_();
}

void Reply::respond(Response response) {
  const std::lock_guard lock(mutex_);
  CHECK(!has_begun_) << "an exchange has one response";
  has_begun_ = has_ended_ = true;
  next_.head = std::move(response);
  next_.is_last = true;
  wake_up();
}

void Reply::begin_stream(int status, std::string_view content_type, Headers headers) {
  const std::lock_guard lock(mutex_);
  CHECK(!has_begun_) << "an exchange has one response";
  has_begun_ = is_stream_ = true;
  next_.head = Response{.status = status, .content_type = std::string(content_type), .headers = std::move(headers)};
  next_.is_stream = true;
  wake_up();
}

bool Reply::send(std::string bytes) {
  {
    const std::lock_guard lock(mutex_);
    CHECK(is_stream_ && !has_ended_) << "bytes of a stream that is not under way";
    if (bytes.empty()) return !is_lost_;
    if (is_lost_) {
      has_lost_bytes_ = true;
      return false;
    }
    // A piece of any size is accepted unless the queue is already over its limit. So a client that keeps up can receive
    // any answer.
    if (next_.bytes.size() + n_under_way_ <= max_queued_bytes_) {
      if (next_.bytes.empty()) {
        next_.bytes = std::move(bytes);
      } else {
        next_.bytes += bytes;
      }
      wake_up();
      return true;
    }
  }
  lose_client(true);
  return false;
}

void Reply::end_stream() {
  const std::lock_guard lock(mutex_);
  CHECK(is_stream_ && !has_ended_) << "the end of a stream that is not under way";
  has_ended_ = next_.is_last = true;
  wake_up();
}

void Reply::set_keep_alive(std::string bytes, std::chrono::milliseconds every) {
  const std::lock_guard lock(mutex_);
  keep_alive_ = {std::move(bytes), every};
  wake_up();  // the keep-alive may be due before the connection's timer
}

void Reply::set_figures(const AnswerFigures& figures) {
  const std::lock_guard lock(mutex_);
  record_.figures = figures;
}

void Reply::let_go() {
  const std::lock_guard lock(mutex_);
  if (has_ended_) return;
  has_begun_ = has_ended_ = true;
  next_.is_last = next_.is_cut = true;
  wake_up();
}

void Reply::set_wake(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
  if (next_.head || next_.is_last || !next_.bytes.empty()) wake_up();
}

Reply::Portion Reply::take() {
  const std::lock_guard lock(mutex_);
  is_woken_ = false;
  n_under_way_ += next_.bytes.size();
  is_sending_ = is_sending_ || next_.head || !next_.bytes.empty();
  if (next_.head) record_.status = next_.head->status;
  return std::exchange(next_, Portion{});
}

Reply::KeepAlive Reply::keep_alive() const {
  const std::lock_guard lock(mutex_);
  return keep_alive_;
}

void Reply::sent(size_t n_bytes) {
  const std::lock_guard lock(mutex_);
  n_under_way_ = 0;
  is_sending_ = false;
  if (record_.n_bytes_out == 0) record_.first_byte_ms = ms_since(begin_);
  record_.n_bytes_out += n_bytes;
  record_.total_ms = ms_since(begin_);
}

void Reply::lose_client(bool slow) {
  {
    const std::lock_guard lock(mutex_);
    if (is_lost_) return;
    is_lost_ = true;
    record_.client_slow = slow;
    has_lost_bytes_ = has_lost_bytes_ || slow || !next_.bytes.empty();
    next_.bytes.clear();
    if (slow) {
      next_.is_last = next_.is_cut = true;
      wake_up();
    }
  }
  gone_.request_stop();  // call without the lock, because the callbacks of gone() may call any function
}

void Reply::lose_bytes() {
  const std::lock_guard lock(mutex_);
  has_lost_bytes_ = true;
}

void Reply::end_early() {
  {
    const std::lock_guard lock(mutex_);
    wants_no_more_ = true;
  }
  lose_client();
}

void Reply::forget_connection() {
  std::function<void()> wake;
  const std::lock_guard lock(mutex_);
  wake.swap(wake_);
}

}  // namespace ibid::http
