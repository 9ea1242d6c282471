#include "server/http/connection.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "server/http/exchange.h"

namespace ibid::http {

namespace {

// The headers with the id of a request: OpenAI's clients read the first, Anthropic's the second. The id is the
// client's, or else the number of the request.
constexpr const char* kIdHeaders[] = {"x-request-id", "request-id"};

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr size_t kMaxAhead = 64u << 10;  // maximum bytes of the next requests that are read while one is answered
constexpr milliseconds kConnectionCheckDelay{
    50};  // interval of checks whether a client is connected while nothing is read from it
constexpr milliseconds kLingerTime{1000};  // time for a client to read its last response before the connection closes
constexpr size_t kMaxLingered = 4u << 20;  // maximum bytes that are read and discarded while lingering
constexpr size_t kBodyBytesPerSecond = 256u << 10;
constexpr size_t kBodyStep = 64u << 10;  // number of received bytes after which the deadline of a body is extended

constexpr milliseconds kDeliveryLookTime{10};  // interval of the checks whether written bytes were delivered

// True for a method that may appear in a log; any other method is text from the client.
bool is_known_method(std::string_view method) {
  constexpr std::string_view kMethods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
  return std::find(std::begin(kMethods), std::end(kMethods), method) != std::end(kMethods);
}

void add_ids(const RequestHead& head, uint64_t number, Headers& headers) {
  for (const char* name : kIdHeaders) {
    headers.emplace_back(name, head.request_id.empty() ? std::to_string(number) : head.request_id);
  }
  if (!head.trace_parent.empty()) headers.emplace_back("traceparent", head.trace_parent);
}

// Makes the request for the handler, with the body from the reader. REQUIRES: the request is complete and admitted.
Request make_request(uint64_t id, RequestReader& reader, const Admission& admission, const std::string& client) {
  const RequestHead& head = reader.head();
  Request request;
  request.id = id;
  request.method = head.method;
  request.path = head.target.path;
  request.query = head.target.query;
  request.headers = head.headers;
  request.body = reader.take_body();
  request.key_namespace = admission.cache_namespace;
  request.named_namespace = admission.named_namespace;
  request.client = client;
  return request;
}

// Sets the fields of a record that are known when the request is complete.
ExchangeRecord make_record(uint64_t id, const RequestReader& reader, const Admission& admission,
                           const std::string& client) {
  const RequestHead& head = reader.head();
  ExchangeRecord record{.id = id, .request_id = head.request_id, .trace_parent = head.trace_parent, .client = client};
  record.unknown_path = admission.unknown_path;
  record.method = is_known_method(head.method) ? head.method : "other";
  record.pattern = admission.match.pattern;
  record.n_bytes_in = reader.n_body_bytes();
  return record;
}

// The exchange that a handler holds. It owns its request, and passes the response to the Reply, from which the
// connection takes it.
class ClientExchange : public Exchange {
 public:
  ClientExchange(Request request, std::shared_ptr<Reply> reply, BodyAllowance allowance)
      : request_(std::move(request)), reply_(std::move(reply)), allowance_(std::move(allowance)) {}
  ~ClientExchange() override { reply_->let_go(); }

  const Request& request() const override { return request_; }
  void respond(Response response) override { reply_->respond(std::move(response)); }
  void begin_stream(int status, std::string_view content_type, Headers headers) override {
    reply_->begin_stream(status, content_type, std::move(headers));
  }
  bool send(std::string bytes) override { return reply_->send(std::move(bytes)); }
  void end_stream() override { reply_->end_stream(); }
  void set_keep_alive(std::string bytes, std::chrono::milliseconds every) override {
    reply_->set_keep_alive(std::move(bytes), every);
  }
  void set_figures(const AnswerFigures& figures) override { reply_->set_figures(figures); }
  std::stop_token gone() const override { return reply_->gone(); }

 private:
  const Request request_;
  const std::shared_ptr<Reply> reply_;
  const BodyAllowance allowance_;
};

// Waits until the written bytes have arrived at the client. A write only passes bytes to the kernel: a client that has
// closed its socket never gets them, while a client that has only ended its input may still read. Checks until the
// client's kernel has acknowledged or refused every byte; bytes that are neither at `until` count as lost. Reports a
// loss to `reply`, then calls `then`. Runs in callbacks of the transport, and uses its timer.
void watch_delivery(const std::shared_ptr<Transport>& transport, const std::shared_ptr<Reply>& reply,
                    Clock::time_point until, const std::function<void()>& then) {
  const Delivery delivery = transport->delivery();
  const auto now = Clock::now();
  if (delivery == Delivery::kUnderWay && now < until) {
    const auto look_again = [transport, reply, until, then] { watch_delivery(transport, reply, until, then); };
    return transport->wake_at(now + kDeliveryLookTime, look_again);
  }
  if (delivery != Delivery::kDone) reply->lose_bytes();
  then();
}

}  // namespace

template <typename Act>
void Connection::in_turn(Act&& act) {
  if (!guarded(act)) guarded([this] { close(); });
}

Connection::Connection(std::shared_ptr<Transport> transport, std::shared_ptr<ServerRoom> room)
    : transport_(std::move(transport)),
      room_(std::move(room)),
      outbox_({.patience = room_->options.write_timeout,
               .bytes_per_second = room_->options.write_bytes_per_second,
               .stall = room_->options.stall_time}) {}

Connection::~Connection() { room_->connections.remove(this); }

void Connection::start() {
  const auto self = shared_from_this();
  transport_->post([self] {
    self->in_turn([&] {
      if (self->state_ == State::kClosed) return;
      self->set_deadline(self->room_->options.header_timeout);
      self->transport_->handshake([self](bool ok, size_t) {
        self->in_turn([&] {
          if (self->state_ == State::kClosed) return;
          if (!ok) return self->close();
          self->await_request();
          self->set_deadline(self->room_->options.header_timeout);
          self->read_more();
        });
      });
    });
  });
}

void Connection::give_way() {
  transport_->post([self = shared_from_this()] {
    self->in_turn([&] {
      if (self->state_ != State::kAnswering) return self->close();
      if (self->is_slow_) self->lose_slow_client();
    });
  });
}

void Connection::end() {
  transport_->post([self = shared_from_this()] { self->in_turn([&] { self->close(); }); });
}

void Connection::cancel_exchange() {
  transport_->post([self = shared_from_this()] {
    self->in_turn([&] {
      if (self->reply_ != nullptr) self->reply_->cancel();
    });
  });
}

void Connection::close_when_idle() {
  transport_->post([self = shared_from_this()] {
    self->in_turn([&] {
      self->close_after_ = true;
      const bool idle = self->state_ == State::kReading && !self->request_begun_;
      if (idle || self->state_ == State::kHandshake) self->close();
    });
  });
}

void Connection::read_more() {
  if (state_ == State::kClosed || input_ended_ || is_reading_) return;
  if (is_far_ahead()) {
    connection_check_at_ = Clock::now() + kConnectionCheckDelay;
    return schedule();
  }
  is_reading_ = true;
  transport_->read(bytes_read_,
                   [self = shared_from_this()](bool ok, size_t n) { self->in_turn([&] { self->on_read(ok, n); }); });
}

// Requests that a client sends early take memory, so while one request is answered, the next ones are read only up to a
// limit.
bool Connection::is_far_ahead() const { return state_ == State::kAnswering && ahead_.size() >= kMaxAhead; }

void Connection::on_read(bool ok, size_t n) {
  is_reading_ = false;
  if (state_ == State::kClosed) return;
  if (!ok || n == 0) return on_end_of_input();
  if (state_ == State::kLingering) {
    if ((n_lingered_ += n) > kMaxLingered) return close();
  } else {
    ahead_.append(bytes_read_.data(), n);
  }
  if (state_ == State::kReading) feed();
  read_more();
}

void Connection::on_end_of_input() {
  input_ended_ = true;
  if (state_ != State::kAnswering) return close();
  close_after_ = true;
  reply_->lose_client();
  if (response_.is_streaming()) pump();
}

void Connection::await_request() {
  state_ = State::kReading;
  reader_ = std::make_unique<RequestReader>(
      RequestReader::Limits{room_->options.max_header_bytes, room_->options.max_body_bytes});
  admission_ = {};
  allowance_ = BodyAllowance(room_->bodies);
  request_begun_ = false;
  n_body_seen_ = 0;
  admission_ = {};
  room_->connections.set_waiting(this, true);
  set_deadline(room_->options.idle_timeout);
}

void Connection::feed() {
  while (state_ == State::kReading && !ahead_.empty()) {
    if (!request_begun_) {
      request_begun_ = true;
      set_deadline(room_->options.header_timeout);
    }
    size_t n_taken = 0;
    const RequestReader::Progress progress = reader_->read(ahead_, n_taken);
    ahead_.erase(0, n_taken);
    if (progress == RequestReader::Progress::kRefused) return refuse(reader_->refusal());
    if (progress == RequestReader::Progress::kHead) {
      check_head();
      if (state_ != State::kReading) return;
      if (!reader_->head().has_body) return begin_exchange();
      continue;
    }
    if (!allowance_.grow_to(reader_->n_body_bytes())) {
      return refuse({503, "out of memory for request bodies; retry later"}, {{"Retry-After", "1"}});
    }
    if (progress == RequestReader::Progress::kWhole) return begin_exchange();
    return mark_progress_of_body();
  }
}

// Extends the deadline of a body that makes progress, and moves the connection to the end of the eviction order.
void Connection::mark_progress_of_body() {
  const size_t n = reader_->n_body_bytes();
  if (deadline_ != TimePoint::max() && n > 0) {
    deadline_ = body_begin_ + room_->options.body_timeout + std::chrono::seconds(n / kBodyBytesPerSecond);
  }
  if (n < n_body_seen_ + kBodyStep) return;
  n_body_seen_ = n;
  room_->connections.wait_anew(this);
}

void Connection::check_head() {
  const RequestHead& head = reader_->head();
  admission_ = room_->filter.admit(head, transport_->is_local());
  if (admission_.refusal) return refuse(admission_.refusal, std::move(admission_.headers));
  body_begin_ = Clock::now();
  set_deadline(room_->options.body_timeout);
  if (head.expects_continue && ahead_.empty()) {
    outbox_.bytes() += kContinue;
    write_out();
  }
}

Reply& Connection::begin_reply() {
  state_ = State::kAnswering;
  room_->connections.set_waiting(this, false);
  room_->exchanges.add();
  exchange_id_ = ++room_->n_requests;
  reply_ = std::make_shared<Reply>(make_record(exchange_id_, *reader_, admission_, transport_->client()),
                                   room_->options.max_queued_bytes, room_->report);
  close_after_ = close_after_ || !reader_->head().keep_alive || room_->is_closing.load();
  deadline_ = TimePoint::max();
  last_sent_ = Clock::now();
  return *reply_;
}

// Creates the response writer for the request, and waits for the portions of the reply.
void Connection::await_reply() {
  const RequestHead& head = reader_->head();
  add_ids(head, exchange_id_, admission_.headers);
  response_ = ResponseWriter({.is_old = head.is_old,
                              .head_only = head.method == "HEAD",
                              .keep_alive = !close_after_,
                              .headers = std::move(admission_.headers)});
  reply_->set_wake(
      [self = shared_from_this()] { self->transport_->post([self] { self->in_turn([&] { self->pump(); }); }); });
  schedule();
}

void Connection::refuse(const Refusal& refusal, Headers headers) {
  ++room_->n_refused;
  Reply& reply = begin_reply();
  // Close after this exchange: the body was not read to its end, and its rest would be parsed as the next request.
  const RequestHead& head = reader_->head();
  close_after_ = close_after_ || reader_->refusal() || head.has_body || head.method.empty();
  reader_->take_body();
  allowance_ = BodyAllowance();
  await_reply();
  reply.respond({.status = refusal.status,
                 .body = room_->error_body(refusal.status, refusal.message, head.target.path),
                 .headers = std::move(headers)});
}

void Connection::begin_exchange() {
  Reply& reply = begin_reply();
  await_reply();
  if (admission_.status != 0) return reply.respond({.status = admission_.status});
  Request request = make_request(exchange_id_, *reader_, admission_, transport_->client());
  auto exchange = std::make_shared<ClientExchange>(std::move(request), reply_, std::move(allowance_));
  // The handler is a reference into the router, which stays valid: the router outlives the workers, which run this
  // function.
  auto answer = [exchange = std::move(exchange), handler = admission_.match.handler,
                 parts = std::move(admission_.match.parts)]() mutable { (*handler)(std::move(exchange), parts); };
  if (admission_.match.access == Access::kEverybody) {
    guarded(answer);
  } else {
    room_->workers.post_guarded(std::move(answer));
  }
}

void Connection::pump() {
  if (state_ == State::kClosed || outbox_.is_writing()) return;
  const bool is_left = input_ended_ && response_.is_streaming();
  if (outbox_.is_empty() && reply_ != nullptr && (is_left || !take_portion())) return close();
  if (!outbox_.is_empty()) return write_out();
  if (reply_ != nullptr && response_.is_whole()) return finish_exchange();
  schedule();
}

bool Connection::take_portion() {
  Reply::Portion portion = reply_->take();
  if (portion.is_cut && !portion.head && !response_.has_head()) {
    portion = {.head = Response{.status = 500, .body = room_->error_body(500, "the server produced no response", {})},
               .is_last = true};
  }
  const bool goes_on = response_.add(std::move(portion), outbox_.bytes());
  close_after_ = close_after_ || !response_.keep_alive();
  // A response to HEAD has no body, so a stream ends after its head.
  if (goes_on && response_.is_whole() && reader_->head().method == "HEAD") reply_->end_early();
  return goes_on;
}

void Connection::write_out() {
  if (outbox_.is_writing() || state_ == State::kClosed) return;
  outbox_.begin(Clock::now());
  schedule();
  transport_->write(outbox_.rest(), [self = shared_from_this()](bool ok, size_t n) {
    self->in_turn([&] { self->on_written(ok, n); });
  });
}

void Connection::on_written(bool ok, size_t n) {
  const size_t n_sent = outbox_.end(n);
  if (state_ == State::kClosed) return;
  if (!ok) return close();
  last_sent_ = Clock::now();
  if (!outbox_.is_empty()) return write_out();
  if (is_slow_) room_->connections.set_waiting(this, false);
  is_slow_ = false;
  if (reply_ != nullptr) reply_->sent(n_sent);
  pump();
}

void Connection::finish_exchange() {
  reply_->forget_connection();
  const std::shared_ptr<Reply> reply = std::exchange(reply_, nullptr);
  room_->exchanges.remove();
  if (input_ended_) {
    state_ = State::kLingering;
    return watch_delivery(transport_, reply, Clock::now() + kLingerTime, [self = shared_from_this()] { self->end(); });
  }
  if (close_after_ || room_->is_closing.load()) return linger();
  await_request();
  feed();
  read_more();
}

void Connection::lose_slow_client() {
  if (reply_ != nullptr) reply_->lose_client(true);
  close();
}

void Connection::linger() {
  state_ = State::kLingering;
  room_->connections.set_waiting(this, true);
  ahead_.clear();
  transport_->end_writing();
  set_deadline(kLingerTime);
  read_more();
}

void Connection::close() {
  if (state_ == State::kClosed) return;
  const bool was_answering = state_ == State::kAnswering;
  state_ = State::kClosed;
  transport_->close();
  if (was_answering && reply_ != nullptr) {
    const std::shared_ptr<Reply> reply = std::move(reply_);
    reply->forget_connection();
    reply->lose_client();
    room_->exchanges.remove();
  }
  room_->connections.remove(this);
}

void Connection::set_deadline(milliseconds from_now) {
  deadline_ = Clock::now() + from_now;
  schedule();
}

// Returns when the next keep-alive bytes of a stream are due; TimePoint::max() if never.
Connection::TimePoint Connection::keep_alive_time(Reply::KeepAlive& keep_alive) const {
  if (reply_ == nullptr || outbox_.is_writing() || !response_.is_streaming()) return TimePoint::max();
  keep_alive = reply_->keep_alive();
  return keep_alive.bytes.empty() ? TimePoint::max() : last_sent_ + keep_alive.every;
}

void Connection::schedule() {
  if (state_ == State::kClosed) return;
  Reply::KeepAlive keep_alive;
  const TimePoint next =
      std::min({deadline_, outbox_.deadline(), outbox_.stall(), connection_check_at_, keep_alive_time(keep_alive)});
  if (next >= alarm_) return;  // an alarm that is too early need not be changed: when it fires, it is set again
  alarm_ = next;
  transport_->wake_at(next, [self = shared_from_this()] { self->in_turn([&] { self->on_time(); }); });
}

void Connection::on_time() {
  alarm_ = TimePoint::max();
  if (state_ == State::kClosed) return;
  const TimePoint now = Clock::now();
  if (now >= outbox_.deadline()) return lose_slow_client();
  if (now >= outbox_.stall()) {
    outbox_.count_as_slow();
    is_slow_ = state_ == State::kAnswering;
    if (is_slow_) room_->connections.set_waiting(this, true);
  }
  if (now >= connection_check_at_) {
    connection_check_at_ = TimePoint::max();
    if (is_far_ahead() && transport_->client_has_ended()) return on_end_of_input();
    read_more();
  }
  if (now >= deadline_) return on_deadline();
  Reply::KeepAlive keep_alive;
  if (now >= keep_alive_time(keep_alive) && outbox_.is_empty()) {
    response_.add_to_stream(keep_alive.bytes, outbox_.bytes());
    return write_out();
  }
  schedule();
}

void Connection::on_deadline() {
  deadline_ = TimePoint::max();
  if (state_ != State::kReading || !request_begun_) return close();
  refuse({408, "timeout while reading the request"});
}

}  // namespace ibid::http
