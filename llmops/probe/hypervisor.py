"""What runs a virtual machine, from the firmware's maker (/sys/class/dmi/id), as systemd-detect-virt names it."""

from __future__ import annotations

from llmops.host import Host
from llmops.probe.sources import read_value

_DMI = "/sys/class/dmi/id"
# Beginnings of sys_vendor or product_name, in lower case -> the hypervisor (systemd, src/basic/virt.c).
_MAKERS = (
    ("kvm", "kvm"), ("openstack", "kvm"), ("kubevirt", "kvm"), ("qemu", "kvm"), ("google", "google"),
    ("amazon ec2", "amazon"), ("vmware", "vmware"), ("innotek", "oracle"), ("virtualbox", "oracle"), ("xen", "xen"),
    ("bochs", "bochs"), ("parallels", "parallels"), ("bhyve", "bhyve"), ("hyper-v", "microsoft"),
    ("apple virtualization", "apple"), ("digitalocean", "kvm"), ("hetzner", "kvm"), ("vultr", "kvm"),
)  # fmt: skip
_MICROSOFT = ("microsoft corporation", "virtual machine")


def read_hypervisor(host: Host, cpu_flags: tuple[str, ...]) -> str | None:
    """Its name, `unknown` where only the processor says that it is virtual, None on a machine of its own.

    Some makers of virtual machines sell real ones too: without the processor's flag only the unmistakable names count.
    """
    vendor, product = ((read_value(host, f"{_DMI}/{name}") or "").lower() for name in ("sys_vendor", "product_name"))
    named = next((name for start, name in _MAKERS if vendor.startswith(start) or product.startswith(start)), None)
    if (vendor, product) == _MICROSOFT:
        named = "microsoft"
    virtual = "hypervisor" in cpu_flags
    if named in {None, "google", "amazon"} or vendor.startswith("hetzner"):
        return (named or "unknown") if virtual else None
    return named
