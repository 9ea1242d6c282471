#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "tests/server/http/server_fixture.h"
#include "tests/server/http/tls_certificate.h"
#include "tests/support/temp_dir.h"

namespace ibid::http {
namespace {

using testing::HasSubstr;

struct Free {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* session) const { SSL_free(session); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

// A RawClient that uses TLS up to some version.
class TlsClient {
 public:
  TlsClient(uint16_t port, int most) : socket_(port), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_security_level(context_.get(), 0);  // at a higher level the client would not try old versions
    SSL_CTX_set_max_proto_version(context_.get(), most);
    session_.reset(SSL_new(context_.get()));
    SSL_set_fd(session_.get(), socket_.descriptor());
    is_connected_ = SSL_connect(session_.get()) == 1;
  }

  bool is_connected() const { return is_connected_; }
  void send(std::string_view bytes) { SSL_write(session_.get(), bytes.data(), static_cast<int>(bytes.size())); }
  std::string read_some() {
    char bytes[16 * 1024];
    const int n = SSL_read(session_.get(), bytes, sizeof(bytes));
    return n > 0 ? std::string(bytes, static_cast<size_t>(n)) : "";
  }
  void say_goodbye() { SSL_shutdown(session_.get()); }
  RawClient& socket() { return socket_; }

 private:
  RawClient socket_;
  Owned<SSL_CTX> context_;
  Owned<SSL> session_;
  bool is_connected_ = false;
};

class ServerTlsTest : public ServerFixture {
 protected:
  void SetUp() override {
    options_ = quick_options();
    options_.certificate_file = dir_.file("cert.pem");
    options_.key_file = dir_.file("key.pem");
    write_certificate(options_.certificate_file, options_.key_file);
  }

  Status refused(const std::string& certificate_file, const std::string& key_file) const {
    ServerOptions options = options_;
    options.certificate_file = certificate_file;
    options.key_file = key_file;
    return Server::listen(options, Router(), [](int, std::string_view, std::string_view) { return ""; }).status();
  }

  TempDir dir_;
  ServerOptions options_;
};

TEST_F(ServerTlsTest, Tls12And13AreServedAndOlderVersionsRefused) {
  start(options_);
  EXPECT_THAT(server_->url(), HasSubstr("https://127.0.0.1:"));
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient one(server_->port(), version);
    ASSERT_TRUE(one.is_connected());
    for (int i = 0; i < 3; ++i) {
      one.send(get_text("/health"));
      EXPECT_EQ(status_of(one.read_some()), 200);
    }
  }
  EXPECT_FALSE(TlsClient(server_->port(), TLS1_1_VERSION).is_connected());
}

TEST_F(ServerTlsTest, LargeBodyAndStreamAreTransferred) {
  start(options_);
  TlsClient one(server_->port(), TLS1_3_VERSION);
  const std::string body(1'000'000, 'b');
  one.send(post_text("/echo", body));
  std::string all;
  while (all.size() < body.size()) {
    const std::string some = one.read_some();
    if (some.empty()) break;
    all += some;
  }
  EXPECT_EQ(body_of(all), body);
  one.send(get_text("/hold"));
  const ExchangePtr exchange = held(0);
  exchange->begin_stream(200, "text/event-stream");
  exchange->send("data: 1\n\n");
  exchange->end_stream();
  std::string stream;
  while (stream.find("0\r\n\r\n") == std::string::npos) stream += one.read_some();
  EXPECT_THAT(stream, HasSubstr("9\r\ndata: 1\n\n\r\n"));
}

TEST_F(ServerTlsTest, DisconnectOverTlsIsDetected) {
  start(options_);
  TlsClient one(server_->port(), TLS1_3_VERSION);
  one.send(get_text("/hold"));
  const ExchangePtr exchange = held(0);
  ASSERT_NE(exchange, nullptr);
  one.socket().reset();
  EXPECT_TRUE(is_gone_within(exchange, 5000));
}

TEST_F(ServerTlsTest, ClientThatReadsAllAndClosesIsNotRecordedAsGone) {
  start(options_);
  constexpr size_t kClients = 40;
  for (size_t i = 0; i < kClients; ++i) {
    TlsClient one(server_->port(), TLS1_3_VERSION);
    one.send(get_text("/whose"));
    if (i % 4 == 0) one.say_goodbye();  // closes its sending side, and reads the response
    EXPECT_EQ(status_of(one.read_some()), 200);
    if (i % 4 == 1) one.say_goodbye();
    one.socket().leave();
  }
  const auto all = records(kClients);
  ASSERT_EQ(all.size(), kClients);
  for (const ExchangeRecord& record : all) EXPECT_FALSE(record.client_gone) << record.id;
}

TEST_F(ServerTlsTest, ClientThatClosesBeforeTheResponseIsRecordedAsGone) {
  start(options_);
  TlsClient one(server_->port(), TLS1_3_VERSION);
  one.send(get_text("/hold"));
  ExchangePtr exchange = held(0);
  ASSERT_NE(exchange, nullptr);
  one.socket().leave();
  ASSERT_TRUE(is_gone_within(exchange, 5000));
  exchange->respond({.body = "to nobody"});
  exchange.reset();
  let_go_of_all();
  const auto all = records(1);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(all[0].client_gone);
}

TEST_F(ServerTlsTest, PlainTextAndSilentClientsAreClosed) {
  options_.header_timeout = std::chrono::milliseconds(200);
  start(options_);
  RawClient plain = client(), silent = client();
  plain.send(get_text("/health"));
  EXPECT_TRUE(plain.is_closed_within(5000));
  EXPECT_TRUE(silent.is_closed_within(5000));
  TlsClient good(server_->port(), TLS1_3_VERSION);
  good.send(get_text("/health"));
  EXPECT_EQ(status_of(good.read_some()), 200);
}

TEST_F(ServerTlsTest, ErrorsNameBadCertificateFiles) {
  EXPECT_EQ(refused(dir_.file("none"), options_.key_file).code(), ErrorCode::kNotFound);
  EXPECT_THAT(refused(dir_.file("none"), options_.key_file).message(), HasSubstr(dir_.file("none")));
  EXPECT_EQ(refused(options_.certificate_file, "").code(), ErrorCode::kInvalidArgument);
  const std::string text = dir_.write("text", "no PEM");
  EXPECT_THAT(refused(text, options_.key_file).message(), HasSubstr("is not a PEM certificate"));
  EXPECT_THAT(refused(options_.certificate_file, text).message(), HasSubstr("is not the private key of"));
  write_certificate(dir_.file("other.pem"), dir_.file("other_key.pem"));
  EXPECT_THAT(refused(options_.certificate_file, dir_.file("other_key.pem")).message(),
              HasSubstr("is not the private key"));
  EXPECT_EQ(refused(dir_.file(""), options_.key_file).code(), ErrorCode::kIo);
}

}  // namespace
}  // namespace ibid::http
