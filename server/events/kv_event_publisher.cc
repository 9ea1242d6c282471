#include "server/events/kv_event_publisher.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "base/thread_error.h"
#include "cache/store/lru_kv_cache_store.h"
#include "net/socket_address.h"
#include "net/unix_listener.h"

namespace ibid::serve {

namespace {

constexpr size_t kMaxBlocks = 256;           // maximum blocks of a batch, which then has about 60 kB
constexpr size_t kMaxKept = 10'000;          // maximum number of batches that are kept for requests to repeat them
constexpr size_t kMaxKeptBytes = 64u << 20;  // maximum bytes of these batches
constexpr int kMaxQueued = 1'000;            // maximum number of batches that wait for a slow subscriber
constexpr int64_t kMaxPeerBytes = 256;       // maximum bytes of a message part that a subscriber sends
constexpr int kMaxPeerMessages = 64;         // maximum messages received before changes are published again
constexpr int64_t kSnapshotEveryNs = 1'000'000'000;  // minimum time between two snapshots
constexpr std::chrono::milliseconds kGatherTime{1};  // time in which more changes join a batch
constexpr int kLingerMs = 200;                       // time for sending the last batch when the publisher ends
constexpr size_t kNumberBytes = 8;
constexpr uint64_t kEndNumber = ~uint64_t{0};  // -1
constexpr std::string_view kIpc = "ipc://", kTcp = "tcp://";

Status refused(std::string_view endpoint, const std::string& why) {
  return {ErrorCode::kInvalidArgument, "KV events: " + in_quotes(endpoint) + ": " + why};
}

Status check_path(std::string_view endpoint, const std::string& path) {
  if (!path.starts_with('/')) return refused(endpoint, "needs an absolute path: ipc:///run/user/1000/events");
  const Status status = net::unix_address(path).status();
  return status.ok() ? status : refused(endpoint, status.message());
}

}  // namespace

Status check_event_endpoint(std::string_view endpoint, bool may_leave_machine) {
  if (endpoint.starts_with(kIpc)) return check_path(endpoint, std::string(endpoint.substr(kIpc.size())));
  if (!endpoint.starts_with(kTcp)) return refused(endpoint, "must be ipc:///PATH or tcp://ADDRESS:PORT");
  const std::string_view address = endpoint.substr(kTcp.size());
  const size_t colon = address.rfind(':');
  const std::string_view host = address.substr(0, colon);
  const std::string_view port = colon == address.npos ? "" : address.substr(colon + 1);
  int number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool is_number = error == std::errc() && end == port.data() + port.size() && number >= 1 && number <= 65535;
  if (!is_number && port != "*") return refused(endpoint, "needs a port from 1 to 65535, or * for any free one");
  const bool is_host = host == "*" || (!host.empty() && std::ranges::all_of(host, [](char c) {
                         return hex_digit(c) >= 0 || c == '.' || c == ':' || c == '[' || c == ']';
                       }));
  if (!is_host) return refused(endpoint, "needs an IP address of this machine");
  const bool has_brackets = host.starts_with('[') && host.ends_with(']');
  if (net::is_loopback(std::string(has_brackets ? host.substr(1, host.size() - 2) : host))) return {};
  if (may_leave_machine) return {};
  return refused(endpoint,
                 "can be reached from other machines, and the events are neither encrypted nor signed; use a "
                 "loopback address, or allow it with --kv-events-open");
}

namespace {

// A part of a message. Copies share the bytes.
class Part {
 public:
  Part() { zmq_msg_init(&message_); }
  explicit Part(std::string_view bytes) {
    if (zmq_msg_init_size(&message_, bytes.size()) != 0) throw std::bad_alloc();
    std::copy(bytes.begin(), bytes.end(), static_cast<char*>(zmq_msg_data(&message_)));
  }
  Part(const Part& other) : Part() { zmq_msg_copy(&message_, &other.message_); }
  Part& operator=(const Part&) = delete;
  ~Part() { zmq_msg_close(&message_); }

  std::string_view bytes() const {
    return {static_cast<const char*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)};
  }
  zmq_msg_t* message() { return &message_; }

 private:
  mutable zmq_msg_t message_;
};

Part number_part(uint64_t number) {
  std::string bytes(kNumberBytes, '\0');
  for (size_t i = 0; i < kNumberBytes; ++i) bytes[i] = static_cast<char>(number >> (8 * (kNumberBytes - 1 - i)));
  return Part(bytes);
}

uint64_t number_of(std::string_view bytes) {
  uint64_t number = 0;
  for (const char c : bytes) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

class Socket {
 public:
  Socket() = default;
  Socket(void* context, int type) : socket_(zmq_socket(context, type)) {}
  Socket(Socket&& other) noexcept : socket_(std::exchange(other.socket_, nullptr)), file_(std::move(other.file_)) {}
  Socket& operator=(Socket other) noexcept {
    std::swap(socket_, other.socket_);
    file_.swap(other.file_);
    return *this;
  }
  ~Socket() {
    if (socket_ != nullptr) zmq_close(socket_);
  }
  void* get() const { return socket_; }

  template <typename Value>
  void set(int option, Value value) {
    zmq_setsockopt(socket_, option, &value, sizeof(value));
  }

  // Sets the number of messages that wait for a peer before further ones are dropped, and limits what peers send.
  void limit(int n_queued) {
    set(ZMQ_SNDHWM, n_queued);
    set(ZMQ_LINGER, kLingerMs);
    set(ZMQ_MAXMSGSIZE, kMaxPeerBytes);
  }

  // Binds the socket, whose file only this user may use, and returns the bound endpoint.
  Result<std::string> bind(const std::string& endpoint) {
    if (endpoint.find('[') != endpoint.npos) set(ZMQ_IPV6, 1);
    int listening = -1;
    if (endpoint.starts_with(kIpc)) {
      // ZeroMQ would create the file with the permissions of the umask, which belongs to the whole process.
      Result<net::UnixListener> listener = net::listen_unix(endpoint.substr(kIpc.size()));
      if (!listener.ok()) return {listener.status().code(), "KV events: " + listener.status().message()};
      file_.emplace(std::move(listener->file));
      set(ZMQ_USE_FD, listening = listener->descriptor);  // zmq_bind() takes the descriptor, unless it fails
    }
    if (zmq_bind(socket_, endpoint.c_str()) != 0) {
      const int error = errno;
      if (listening >= 0) close(listening);
      return {ErrorCode::kIo, "KV events: cannot listen on " + endpoint + ": " + zmq_strerror(error)};
    }
    std::array<char, 256> bound{};
    size_t size = bound.size();
    if (zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, bound.data(), &size) != 0) return endpoint;
    return std::string(bound.data());
  }

  // Sends the parts as one message, or drops the message.
  void send(std::vector<Part> parts) const {
    for (size_t i = 0; i < parts.size(); ++i) {
      const int more = i + 1 < parts.size() ? ZMQ_SNDMORE : 0;
      if (zmq_msg_send(parts[i].message(), socket_, ZMQ_DONTWAIT | more) < 0) return;
    }
  }

  // Returns the parts of the next message, at most kMaxParts of them; empty if no message has arrived.
  std::vector<Part> receive() const {
    constexpr size_t kMaxParts = 8;
    std::vector<Part> parts;
    parts.reserve(kMaxParts);
    for (int more = 1; more != 0;) {
      Part part;
      if (zmq_msg_recv(part.message(), socket_, ZMQ_DONTWAIT) < 0) return parts;
      more = zmq_msg_more(part.message());
      if (parts.size() < kMaxParts) parts.push_back(part);
    }
    return parts;
  }

 private:
  void* socket_ = nullptr;
  std::optional<net::SocketFile> file_;  // of an ipc:// endpoint; ZeroMQ does not remove it
};

// Wakes the thread of the sockets. Stores may outlive the publisher, so they share it.
class Alarm {
 public:
  Alarm() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Alarm() { close(descriptor_); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  int descriptor() const { return descriptor_; }
  void ring() noexcept {
    if (!has_rung_.exchange(true)) eventfd_write(descriptor_, 1);
  }
  // Call before the work for which the alarm rings.
  void reset() {
    eventfd_t n = 0;
    eventfd_read(descriptor_, &n);
    has_rung_ = false;
  }

 private:
  const int descriptor_;
  std::atomic<bool> has_rung_{false};
};

struct Context {
  void* context = zmq_ctx_new();
  ~Context() {
    if (context != nullptr) zmq_ctx_term(context);
  }
};

KvEventEncoder::Secret random_secret() {
  KvEventEncoder::Secret secret;
  CHECK(getentropy(secret.data(), secret.size()) == 0) << "the system must supply random numbers";
  return secret;
}

}  // namespace

struct KvEventPublisher::Parts {
  struct Kept {
    uint64_t number;
    Part batch;
  };

  Parts(const KvEventOptions& its_options, Clock& its_clock)
      : options(its_options),
        clock(its_clock),
        encoder(its_options.secret ? *its_options.secret : random_secret(), its_options.private_tokens),
        next_number(static_cast<uint64_t>(clock.unix_ns() / 1'000)) {}

  Status bind() {
    publishing = Socket(context.context, ZMQ_XPUB);
    if (publishing.get() == nullptr) return {ErrorCode::kIo, std::string("KV events: ") + zmq_strerror(errno)};
    publishing.set(ZMQ_XPUB_VERBOSE, 1);  // every new subscriber is reported, also of a known topic
    publishing.limit(kMaxQueued);
    TRY_ASSIGN(endpoint, publishing.bind(options.endpoint));
    if (options.replay_endpoint.empty()) return {};
    repeating = Socket(context.context, ZMQ_ROUTER);
    if (repeating.get() == nullptr) return {ErrorCode::kIo, std::string("KV events: ") + zmq_strerror(errno)};
    repeating.limit(static_cast<int>(2 * kMaxKept));
    TRY_ASSIGN(replay_endpoint, repeating.bind(options.replay_endpoint));
    return {};
  }

  void run() {
    pthread_setname_np(pthread_self(), "ibid-events");
    attempt([this] { publish_clear(); });
    while (!is_ending) {
      wait();
      attempt([this] {
        read_subscriptions();
        read_requests();
        publish_changes();
        if (wants_snapshot && clock.steady_ns() >= next_snapshot_ns) make_snapshot();
      });
    }
    attempt([this] { publish_clear(); });
  }

  // If memory is out, events may be lost; the next snapshot makes up for them.
  template <typename Work>
  void attempt(const Work& work) noexcept {
    try {
      work();
    } catch (const std::bad_alloc&) {
      wants_snapshot = true;
      next_snapshot_ns = clock.steady_ns() + kSnapshotEveryNs;
    }
  }

  void wait() const {
    std::array<zmq_pollitem_t, 3> items = {{{nullptr, alarm->descriptor(), ZMQ_POLLIN, 0},
                                            {publishing.get(), 0, ZMQ_POLLIN, 0},
                                            {repeating.get(), 0, ZMQ_POLLIN, 0}}};
    const int64_t ns = wants_snapshot ? std::max<int64_t>(next_snapshot_ns - clock.steady_ns(), 0) : -1;
    zmq_poll(items.data(), repeating.get() == nullptr ? 2 : 3, ns < 0 ? -1 : static_cast<long>(ns / 1'000'000 + 1));
    // A store that reports one page is about to report more, which then are in the same batch.
    if (items[0].revents != 0) std::this_thread::sleep_for(kGatherTime);
  }

  void read_subscriptions() {
    for (int i = 0; i < kMaxPeerMessages; ++i) {
      const std::vector<Part> parts = publishing.receive();
      if (parts.empty()) return;
      wants_snapshot = wants_snapshot || parts[0].bytes().starts_with('\x01');  // otherwise a subscriber left
    }
  }

  void read_requests() {
    for (int i = 0; i < kMaxPeerMessages && repeating.get() != nullptr; ++i) {
      const std::vector<Part> parts = repeating.receive();
      if (parts.empty()) return;
      if (parts.size() == 3 && parts[2].bytes().size() == kNumberBytes) repeat(parts[0], number_of(parts[2].bytes()));
    }
  }

  void repeat(const Part& client, uint64_t first) {
    ++n_replays;
    publish_changes();
    const uint64_t first_kept = kept.empty() ? next_number : kept.front().number;
    if (first < first_kept || first > next_number) {
      if (snapshot_begin < first_kept || clock.steady_ns() >= next_snapshot_ns) make_snapshot();
      first = snapshot_begin;
    }
    for (const Kept& one : kept) {
      if (one.number < first) continue;
      repeating.send({client, Part(), Part(options.topic), number_part(one.number), one.batch});
    }
    repeating.send({client, Part(), Part(), number_part(kEndNumber), Part()});
  }

  void publish_changes() {
    alarm->reset();
    std::shared_ptr<KvChangeQueue> current;
    {
      const std::lock_guard lock(mutex);
      current = queue;
    }
    if (current == nullptr) return;
    const KvChangeQueue::Taken taken = current->take();
    if (taken.is_outdated) {
      wants_snapshot = true;
      return;
    }
    add_all(taken);
    if (!taken.has_ended) return;
    publish_clear();
    const std::lock_guard lock(mutex);
    if (queue == current) queue = nullptr;
  }

  void add_all(const KvChangeQueue::Taken& taken) {
    if (taken.is_list) encoder.clear();
    for (const KvChange& change : taken.changes) {
      encoder.add(change);
      if (encoder.n_blocks() >= kMaxBlocks) publish();
    }
    publish();
  }

  void make_snapshot() {
    ++n_snapshots;
    wants_snapshot = false;
    next_snapshot_ns = clock.steady_ns() + kSnapshotEveryNs;
    snapshot_begin = next_number;
    std::shared_ptr<KvChangeQueue> current;
    {
      const std::lock_guard lock(mutex);
      current = queue;
    }
    if (current != nullptr) {
      current->list();
      publish_changes();
    }
    if (next_number == snapshot_begin) publish_clear();
  }

  void publish_clear() {
    encoder.clear();
    publish();
  }

  // Sends the encoder's events, if there are any, and keeps them.
  void publish() {
    if (encoder.is_empty()) return;
    const Part batch(encoder.take(static_cast<double>(clock.unix_ns()) * 1e-9));
    kept.push_back({next_number, batch});
    kept_bytes += batch.bytes().size();
    while (kept.size() > kMaxKept || kept_bytes > kMaxKeptBytes) {
      kept_bytes -= kept.front().batch.bytes().size();
      kept.pop_front();
    }
    publishing.send({Part(options.topic), number_part(next_number), batch});
    ++next_number;
    ++n_batches;
  }

  const KvEventOptions options;
  Clock& clock;
  std::string endpoint, replay_endpoint;
  Context context;
  Socket publishing, repeating;
  const std::shared_ptr<Alarm> alarm = std::make_shared<Alarm>();

  std::mutex mutex;
  std::shared_ptr<KvChangeQueue> queue;  // null: no store
  std::atomic<bool> is_ending{false};
  std::atomic<uint64_t> n_batches{0}, n_snapshots{0}, n_replays{0};

  // Used by the thread only.
  KvEventEncoder encoder;
  std::deque<Kept> kept;
  size_t kept_bytes = 0;
  uint64_t next_number;
  uint64_t snapshot_begin = 0;  // number of the last snapshot's first batch
  bool wants_snapshot = false;
  int64_t next_snapshot_ns = 0;  // time from which the next snapshot may be made

  std::thread thread;
};

KvEventPublisher::KvEventPublisher(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

KvEventPublisher::~KvEventPublisher() {
  parts_->is_ending = true;
  parts_->alarm->ring();
  parts_->thread.join();
}

Result<std::unique_ptr<KvEventPublisher>> KvEventPublisher::open(KvEventOptions options, Clock& clock) {
  TRY(check_event_endpoint(options.endpoint, options.may_leave_machine));
  if (!options.replay_endpoint.empty()) {
    TRY(check_event_endpoint(options.replay_endpoint, options.may_leave_machine));
  }
  auto parts = std::make_unique<Parts>(options, clock);
  TRY(parts->bind());
  try {
    parts->thread = std::thread([its = parts.get()] { its->run(); });
  } catch (const std::system_error& error) {
    return no_thread("the thread of KV events", error.code());
  }
  return std::unique_ptr<KvEventPublisher>(new KvEventPublisher(std::move(parts)));
}

void KvEventPublisher::watch(LruKvCacheStore& store) {
  const auto queue = std::make_shared<KvChangeQueue>(store, [alarm = parts_->alarm] { alarm->ring(); });
  {
    const std::lock_guard lock(parts_->mutex);
    parts_->queue = queue;
  }
  queue->list();
}

const std::string& KvEventPublisher::endpoint() const { return parts_->endpoint; }
const std::string& KvEventPublisher::replay_endpoint() const { return parts_->replay_endpoint; }

KvEventPublisher::Stats KvEventPublisher::stats() const {
  return {parts_->n_batches, parts_->n_snapshots, parts_->n_replays};
}

}  // namespace ibid::serve
