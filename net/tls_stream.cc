#include "net/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace ibid::net {

namespace {

constexpr size_t kRecordBytes = 16'384;  // maximum size of a TLS record; smaller pieces are collected into one record

// The text of OpenSSL's first error on this thread, which is forgotten.
std::string tls_error(const char* otherwise) {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? otherwise : reason;
}

// A BIO on a socket that sends without SIGPIPE, which OpenSSL's own does not: a program that links the library may
// not ignore that signal.
int descriptor_of(BIO* bio) { return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))); }

int set_retry(BIO* bio, ssize_t n, int flag) {
  BIO_clear_retry_flags(bio);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
    BIO_set_flags(bio, flag | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(n);
}

int bio_write(BIO* bio, const char* bytes, int n) {
  return set_retry(bio, ::send(descriptor_of(bio), bytes, static_cast<size_t>(n), MSG_NOSIGNAL), BIO_FLAGS_WRITE);
}

int bio_read(BIO* bio, char* room, int n) {
  return set_retry(bio, ::recv(descriptor_of(bio), room, static_cast<size_t>(n), 0), BIO_FLAGS_READ);
}

long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

int bio_create(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

// Null if memory is short.
const BIO_METHOD* socket_method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "ibid socket");
    if (made != nullptr) {
      BIO_meth_set_write(made, bio_write);
      BIO_meth_set_read(made, bio_read);
      BIO_meth_set_ctrl(made, bio_control);
      BIO_meth_set_create(made, bio_create);
    }
    return made;
  }();
  return method;
}

Status bad_file(const std::string& path) {
  return {ErrorCode::kInvalidArgument, path + ": " + tls_error("cannot be read as PEM")};
}

// Makes the handshake fail unless the certificate is of `host`.
bool expect_host(SSL* session, const std::string& host) {
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host.c_str()) == 1) return true;
  ERR_clear_error();
  return SSL_set1_host(session, host.c_str()) == 1 && SSL_set_tlsext_host_name(session, host.c_str()) == 1;
}

}  // namespace

void TlsContext::Free::operator()(SSL_CTX* context) const { SSL_CTX_free(context); }

Result<std::shared_ptr<const TlsContext>> TlsContext::create(const TlsFiles& files) {
  std::shared_ptr<const TlsContext> context(new TlsContext(SSL_CTX_new(TLS_client_method())));
  SSL_CTX* native = context->native();
  if (native == nullptr) return out_of_heap();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(native, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_verify(native, SSL_VERIFY_PEER, nullptr);
  ERR_clear_error();
  if (files.ca_file.empty()) {
    SSL_CTX_set_default_verify_paths(native);
  } else if (SSL_CTX_load_verify_file(native, files.ca_file.c_str()) != 1) {
    return bad_file(files.ca_file);
  }
  if (files.certificate_file.empty()) return context;
  if (SSL_CTX_use_certificate_chain_file(native, files.certificate_file.c_str()) != 1) {
    return bad_file(files.certificate_file);
  }
  if (SSL_CTX_use_PrivateKey_file(native, files.key_file.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(native) != 1) {
    return bad_file(files.key_file);
  }
  return context;
}

void TlsStream::Free::operator()(SSL* session) const { SSL_free(session); }

TlsStream::TlsStream(Socket socket, SSL* session, Clock& clock)
    : socket_(std::move(socket)), session_(session), clock_(clock) {}

Result<std::unique_ptr<ByteStream>> TlsStream::connect(Socket socket, const TlsContext& context,
                                                       const std::string& host, const TimeLimits& limits,
                                                       Clock& clock) {
  ERR_clear_error();
  SSL* session = SSL_new(context.native());
  if (session == nullptr) return out_of_heap();
  std::unique_ptr<TlsStream> stream(new TlsStream(std::move(socket), session, clock));
  BIO* bio = socket_method() == nullptr ? nullptr : BIO_new(socket_method());
  if (bio == nullptr) return out_of_heap();
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(stream->socket_.descriptor())));
  SSL_set_bio(session, bio, bio);
  if (!expect_host(session, host)) return {ErrorCode::kIo, "TLS: " + host + ": " + tls_error("not a valid host")};
  SSL_set_connect_state(session);
  for (int done = SSL_do_handshake(session); done != 1; done = SSL_do_handshake(session)) {
    if (const long verified = SSL_get_verify_result(session); verified != X509_V_OK) {
      return {ErrorCode::kIo, "TLS: the certificate of " + host + ": " + X509_verify_cert_error_string(verified)};
    }
    TRY(stream->wait_after(done, "handshake", limits));
  }
  return std::unique_ptr<ByteStream>(std::move(stream));
}

Status TlsStream::wait_after(int result, const char* what, const TimeLimits& limits) {
  switch (SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_WANT_READ: return socket_.wait(Socket::Ready::kToReceive, limits, clock_);
    case SSL_ERROR_WANT_WRITE: return socket_.wait(Socket::Ready::kToSend, limits, clock_);
    default: return {ErrorCode::kIo, std::string("TLS: ") + what + ": " + tls_error("the connection was closed")};
  }
}

Status TlsStream::send_all(std::span<const std::byte> bytes, const TimeLimits& limits) {
  while (!bytes.empty()) {
    TRY(check_limits(limits, clock_));
    ERR_clear_error();
    size_t n = 0;
    const int result = SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &n);
    if (result == 1) {
      bytes = bytes.subspan(n);
    } else {
      TRY(wait_after(result, "send", limits));
    }
  }
  return {};
}

Status TlsStream::send(Pieces pieces, const TimeLimits& limits) {
  std::vector<std::byte> collected;
  for (const std::span<const std::byte> piece : pieces) {
    if (collected.size() + piece.size() > kRecordBytes) {
      TRY(send_all(collected, limits));
      collected.clear();
    }
    if (piece.size() > kRecordBytes) {
      TRY(send_all(piece, limits));
    } else {
      collected.insert(collected.end(), piece.begin(), piece.end());
    }
  }
  return send_all(collected, limits);
}

Result<size_t> TlsStream::receive(std::span<std::byte> room, const TimeLimits& limits) {
  TRY(check_limits(limits, clock_));
  for (;;) {
    ERR_clear_error();
    size_t n = 0;
    const int result = SSL_read_ex(session_.get(), room.data(), room.size(), &n);
    if (result == 1) return n;
    if (SSL_get_error(session_.get(), result) == SSL_ERROR_ZERO_RETURN) return 0;
    TRY(wait_after(result, "receive", limits));
  }
}

bool TlsStream::is_quiet() {
  ERR_clear_error();
  std::byte next{};
  size_t n = 0;
  // Also processes tickets of the session, which the server may send at any time.
  const int result = SSL_peek_ex(session_.get(), &next, 1, &n);
  return result != 1 && SSL_get_error(session_.get(), result) == SSL_ERROR_WANT_READ;
}

}  // namespace ibid::net
