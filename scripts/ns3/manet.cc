// UDP over an 802.11 ad hoc network in ns-3 3.37: the other side of `trackway bench manet`.
//
// ./manet --nodes=48 --flows=1 --time=100 --side=800 --RngRun=1   nodes on the move, AODV
// ./manet --hops=3 --time=100                                    a chain at rest, routes given
//
// The radio is that of ns-2: 2 Mbit/s, RTS before every frame, ranges of 250 m and 550 m by two-ray ground.
// The last line is a JSON object.

#include <ctime>
#include <iostream>

#include "ns3/aodv-module.h"
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/propagation-module.h"
#include "ns3/wifi-module.h"

using namespace ns3;

int
main(int argc, char** argv)
{
    uint32_t nodes = 48;
    uint32_t flows = 1;
    uint32_t hops = 0;
    double side = 800;
    double time = 100;
    double rate = 50;
    CommandLine command(__FILE__);
    command.AddValue("nodes", "how many nodes move", nodes);
    command.AddValue("flows", "UDP flows, each from a node of its own to the first node", flows);
    command.AddValue("rate", "kbit/s of each", rate);
    command.AddValue("hops", "a chain at rest of so many hops instead", hops);
    command.AddValue("side", "metres of the square's side", side);
    command.AddValue("time", "seconds", time);
    command.Parse(argc, argv);
    if (hops > 0)
    {
        nodes = hops + 1;
        flows = 1;
    }

    Config::SetDefault("ns3::WifiRemoteStationManager::RtsCtsThreshold", UintegerValue(0));

    NodeContainer all;
    all.Create(nodes);

    MobilityHelper mobility;
    if (hops > 0)
    {
        auto places = CreateObject<ListPositionAllocator>();
        for (uint32_t i = 0; i < nodes; ++i)
        {
            places->Add(Vector(200.0 * i, 0, 1.5));
        }
        mobility.SetPositionAllocator(places);
        mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel");
    }
    else
    {
        ObjectFactory area;
        area.SetTypeId("ns3::RandomRectanglePositionAllocator");
        std::ostringstream span;
        span << "ns3::UniformRandomVariable[Min=0.0|Max=" << side << "]";
        area.Set("X", StringValue(span.str()));
        area.Set("Y", StringValue(span.str()));
        auto places = area.Create()->GetObject<PositionAllocator>();
        mobility.SetPositionAllocator(places);
        mobility.SetMobilityModel("ns3::RandomWaypointMobilityModel",
                                  "Speed",
                                  StringValue("ns3::UniformRandomVariable[Min=1.0|Max=20.0]"),
                                  "Pause",
                                  StringValue("ns3::ConstantRandomVariable[Constant=5.0]"),
                                  "PositionAllocator",
                                  PointerValue(places));
    }
    mobility.Install(all);

    YansWifiChannelHelper channel;
    channel.SetPropagationDelay("ns3::ConstantSpeedPropagationDelayModel");
    channel.AddPropagationLoss("ns3::TwoRayGroundPropagationLossModel",
                               "Frequency",
                               DoubleValue(914e6),
                               "MinDistance",
                               DoubleValue(0.5),
                               "HeightAboveZ",
                               DoubleValue(hops > 0 ? 0.0 : 1.5));
    YansWifiPhyHelper phy;
    phy.SetChannel(channel.Create());
    phy.Set("TxPowerStart", DoubleValue(24.5));
    phy.Set("TxPowerEnd", DoubleValue(24.5));
    phy.Set("RxSensitivity", DoubleValue(-64.375));
    phy.Set("CcaEdThreshold", DoubleValue(-78.071));
    WifiHelper wifi;
    wifi.SetStandard(WIFI_STANDARD_80211b);
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager",
                                 "DataMode",
                                 StringValue("DsssRate2Mbps"),
                                 "ControlMode",
                                 StringValue("DsssRate1Mbps"),
                                 "NonUnicastMode",
                                 StringValue("DsssRate1Mbps"));
    WifiMacHelper mac;
    mac.SetType("ns3::AdhocWifiMac");
    auto devices = wifi.Install(phy, mac, all);

    InternetStackHelper internet;
    Ipv4StaticRoutingHelper fixed;
    if (hops == 0)
    {
        AodvHelper aodv;
        internet.SetRoutingHelper(aodv);
    }
    internet.Install(all);
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.128.0.0", "255.255.0.0");
    auto interfaces = addresses.Assign(devices);
    for (uint32_t i = 0; hops > 0 && i < nodes; ++i)
    {
        auto table = fixed.GetStaticRouting(all.Get(i)->GetObject<Ipv4>());
        for (uint32_t j = 0; j < nodes; ++j)
        {
            if (j > i + 1)
            {
                table->AddHostRouteTo(interfaces.GetAddress(j), interfaces.GetAddress(i + 1), 1);
            }
            if (j + 1 < i)
            {
                table->AddHostRouteTo(interfaces.GetAddress(j), interfaces.GetAddress(i - 1), 1);
            }
        }
    }

    ApplicationContainer sinks;
    for (uint32_t flow = 0; flow < flows; ++flow)
    {
        const uint16_t port = 9 + flow;
        const uint32_t to = 0;
        const uint32_t from = hops > 0 ? hops : 1 + flow;
        PacketSinkHelper sink("ns3::UdpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        sinks.Add(sink.Install(all.Get(to)));
        OnOffHelper source("ns3::UdpSocketFactory",
                           InetSocketAddress(interfaces.GetAddress(to), port));
        source.SetConstantRate(DataRate(uint64_t(rate * 1000)), 1460);
        auto application = source.Install(all.Get(from));
        application.Start(Seconds(1 + 0.1 * flow));
    }
    sinks.Start(Seconds(0));

    Simulator::Stop(Seconds(time));
    const clock_t begin = clock();
    Simulator::Run();
    const double cpu = double(clock() - begin) / CLOCKS_PER_SEC;
    uint64_t octets = 0;
    for (uint32_t i = 0; i < sinks.GetN(); ++i)
    {
        octets += DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx();
    }
    std::cout << "{\"goodput_kbit_s\":" << octets * 8.0 / 1000 / (time - 1) << ",\"cpu_s\":" << cpu
              << ",\"cpu_s_per_s\":" << cpu / time << ",\"events\":" << Simulator::GetEventCount() << "}"
              << std::endl;
    Simulator::Destroy();
}
