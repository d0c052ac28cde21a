#include "yonder/fabric/sim/nic_model.h"

namespace yonder::fabric::sim {

NicModel connectx3_40g() { return NicModel{}; }

NicModel rdma100g() {
  NicModel model;
  model.post_request = ns(30);
  model.doorbell = ns(25);
  model.poll = ns(30);
  model.mmio_latency = ns(100);
  model.fetch_latency = ns(250);
  model.fetch_request = ns(5);
  model.dma_read_latency = ns(350);
  model.dma_piece = ns(8);
  model.pcie_byte = ps(70);  // 16 lanes of PCIe 3
  model.units = 8;
  model.send_unit = ns(110);  // × 8 units: about 70 million a second
  model.read_unit = ns(130);
  model.receive_unit = ns(100);
  model.response_unit = ns(10);
  model.read_turnaround = ns(620);
  model.atomic_unit = ns(110);
  model.atomic_turnaround = ns(620);
  model.link_byte = ps(80);  // 100 Gb/s
  model.packet_bytes = 4096;
  model.translation_entries = 16384;
  model.context_entries = 2048;
  model.region_entries = 1024;
  model.region_miss_latency = ns(350);
  model.reregister = us(9);
  model.on_demand_paging = true;
  model.max_inline = 512;
  return model;
}

}  // namespace yonder::fabric::sim
