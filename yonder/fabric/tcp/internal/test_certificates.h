#pragma once
// Certificates and keys for tests, made with the openssl tool in a directory of
// their own: an authority with two members, a stranger with his own authority,
// and two pre-shared keys.
//
// Concurrency: made once per process. Lifetime: removed when the process ends.

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace yonder::fabric::tcp {

class TestCertificates {
 public:
  static const TestCertificates& instance() {
    static const TestCertificates certificates;
    return certificates;
  }

  // Address options that use them.
  std::string member(const char* name) const {
    return "?tls=on&ca=" + path("ca.pem") + "&cert=" + path(name) + ".pem&key=" + path(name) + ".key";
  }
  // Trusts our authority, but nobody here trusts the stranger's.
  std::string stranger() const {
    return "?tls=on&ca=" + path("ca.pem") + "&cert=" + path("stranger.pem") + "&key=" + path("stranger.key");
  }
  std::string psk(const char* key = "psk", const char* identity = "yonder") const {
    return "?tls=on&psk=" + path(key) + "&psk_identity=" + identity;
  }
  std::string path(const std::string& name) const { return (directory_ / name).string(); }

 private:
  TestCertificates() {
    char name[] = "/tmp/yonder_tls_XXXXXX";
    if (::mkdtemp(name) == nullptr) throw std::runtime_error("mkdtemp");
    directory_ = name;
    authority("ca");
    authority("stranger_ca");
    sign("server", "ca");
    sign("client", "ca");
    sign("stranger", "stranger_ca");
    std::ofstream(path("psk")) << "000102030405060708090a0b0c0d0e0f\n";
    std::ofstream(path("other_psk")) << "ff0102030405060708090a0b0c0d0e0f\n";
    std::ofstream(path("short_psk")) << "0011\n";
  }
  ~TestCertificates() { std::filesystem::remove_all(directory_); }

  void run(const std::string& arguments) const {
    const std::string command = "cd " + directory_.string() + " && openssl " + arguments + " 2>>log";
    if (::system(command.c_str()) != 0) throw std::runtime_error(command);
  }
  void authority(const std::string& name) const {
    run("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=" + name +
        " -keyout " + name + ".key -out " + name + ".pem");
  }
  void sign(const std::string& name, const std::string& by) const {
    std::ofstream(path(name + ".ext")) << "subjectAltName=IP:127.0.0.1,DNS:localhost\n";
    run("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" + name + " -keyout " + name +
        ".key -out " + name + ".csr");
    run("x509 -req -days 2 -in " + name + ".csr -CA " + by + ".pem -CAkey " + by +
        ".key -CAcreateserial -extfile " + name + ".ext -out " + name + ".pem");
  }

  std::filesystem::path directory_;
};

}  // namespace yonder::fabric::tcp
