#include "workloads/models/image_network.h"

#include <array>

namespace stretto {

std::span<const NetworkInfo> image_networks() {
  static constexpr std::array<NetworkInfo, 9> kNetworks{{
      {"ResNet-18", 11'689'512, 64, make_resnet18},
      {"ResNet-34", 21'797'672, 64, make_resnet34},
      {"ResNet-50", 25'557'032, 64, make_resnet50},
      {"ResNet-101", 44'549'160, 64, make_resnet101},
      {"ResNet-152", 60'192'808, 64, make_resnet152},
      {"AlexNet", 61'100'840, 64, make_alexnet},
      {"GoogLeNet", 6'624'904, 64, make_googlenet},
      {"Inception-v3", 27'161'264, 299, make_inception_v3},
      {"VGG16", 138'357'544, 64, make_vgg16},
  }};
  return kNetworks;
}

}  // namespace stretto
