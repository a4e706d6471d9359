# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenSM's opensm.conf: options by the shape of a fabric, and the names OpenSM knows.

OpenSM runs on with an option it does not know, so options of one's own are checked against those that 3.3.23 writes with `opensm -c`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import guid_of

from ..core.fabric_model import COMPUTE, STORAGE, Plan, SubnetManager
from ..core.guid_files import GuidError, NeededGuids, missing_guids
from .partitions import needs_both_pkeys

_KNOWN = """
    accum_log_file allow_both_pkeys avoid_throttled_links babbling_port_policy cc_ca_cong_setting_ccti_increase
    cc_ca_cong_setting_ccti_min cc_ca_cong_setting_ccti_timer cc_ca_cong_setting_control_map
    cc_ca_cong_setting_port_control cc_ca_cong_setting_trigger_threshold cc_cct cc_key cc_max_outstanding_mads
    cc_sw_cong_setting_control_map cc_sw_cong_setting_credit_mask cc_sw_cong_setting_credit_starvation_return_delay
    cc_sw_cong_setting_credit_starvation_threshold cc_sw_cong_setting_marking_rate cc_sw_cong_setting_packet_size
    cc_sw_cong_setting_threshold cc_sw_cong_setting_victim_mask cn_guid_file congestion_control connect_roots console
    console_port consolidate_ipv6_snm_req daemon disable_multicast do_mesh_analysis drop_event_subscriptions
    dump_files_dir enable_quirks event_db_dump_file event_plugin_name event_plugin_options exit_on_fatal fdr10
    force_heavy_sweep force_link_speed force_link_speed_ext force_link_width force_log_flush fsync_high_avail_files
    guid guid_routing_order_file guid_routing_order_no_scatter head_of_queue_lifetime honor_guid2lid_file
    hop_weights_file ids_guid_file ignore_other_sm io_guid_file ipoib_mcgroup_creation_validation keep_pkey_indexes
    lash_start_vl leaf_head_of_queue_lifetime leaf_vl_stall_count lfts_file lid_matrix_dump_file lmc lmc_esp0
    local_phy_errors_threshold log_file log_flags log_max_size log_prefix long_transaction_timeout m_key
    m_key_lease_period m_key_lookup m_key_protection_level max_msg_fifo_timeout max_op_vls max_reverse_hops
    max_smps_timeout max_wire_smps max_wire_smps2 mcgroup_join_validation no_clients_rereg no_partition_enforcement
    node_name_map_name nue_include_switches nue_max_num_vls overrun_errors_threshold packet_life_time part_enforce
    partition_config_file per_module_logging_file perfmgr perfmgr_ignore_cas perfmgr_log_errors
    perfmgr_max_outstanding_queries perfmgr_query_cpi perfmgr_redir perfmgr_rm_nodes perfmgr_sweep_time_s
    perfmgr_xmit_wait_log perfmgr_xmit_wait_threshold polling_retry_number port_prof_ignore_file
    port_profile_switch_nodes port_search_ordering_file port_shifting prefix_routes_file qos qos_ca_high_limit
    qos_ca_max_vls qos_ca_sl2vl qos_ca_vlarb_high qos_ca_vlarb_low qos_high_limit qos_max_vls qos_policy_file
    qos_rtr_high_limit qos_rtr_max_vls qos_rtr_sl2vl qos_rtr_vlarb_high qos_rtr_vlarb_low qos_sl2vl
    qos_sw0_high_limit qos_sw0_max_vls qos_sw0_sl2vl qos_sw0_vlarb_high qos_sw0_vlarb_low qos_swe_high_limit
    qos_swe_max_vls qos_swe_sl2vl qos_swe_vlarb_high qos_swe_vlarb_low qos_vlarb_high qos_vlarb_low
    quasi_ftree_indexing reassign_lids root_guid_file routing_engine sa_db_dump sa_db_file sa_key scatter_ports
    single_thread sm_assigned_guid sm_inactive sm_key sm_priority sm_sl sminfo_polling_timeout subnet_prefix
    subnet_timeout suppress_sl2vl_mad_status_errors sweep_interval sweep_on_trap torus_config transaction_retries
    transaction_timeout use_mfttop use_optimized_slvl use_original_extended_sa_rates_only use_ucast_cache
    vl_stall_count
"""
OPTIONS = frozenset(_KNOWN.split())
_FILES = "it is written of the plan, and proved with it; state the fabric otherwise"
_LOGS = "it belongs to the plane, and its unit, logrotate and verify know it"
# What follows from the plan or from another variable, so that an option of one's own would undo it: name -> what to do instead.
OWN = {
    "guid": "it is the port of the plan; replaced adapters are recorded by playbooks/fabric_compare.yml -e fabric_record=true",
    "sm_priority": "the order of services.subnet_managers makes it, the first is master",
    "routing_engine": "use opensm_routing_engines, and opensm_no_fallback",
    "sm_inactive": "take the host out of services.subnet_managers",
    "ignore_other_sm": "a plane has one master, and its standbys",
    "log_file": _LOGS,
    "accum_log_file": "logrotate rotates it: opensm_log_size, opensm_log_keep",
    "log_max_size": "logrotate rotates it: opensm_log_size, opensm_log_keep",
    "force_log_flush": "verify reads the log, which must not be minutes late",
    "dump_files_dir": _LOGS,
    "daemon": "systemd runs it as opensm-plane@PLANE.service; opensm_drop_ins changes that unit",
    **dict.fromkeys(
        ("root_guid_file", "cn_guid_file", "io_guid_file", "guid_routing_order_file", "node_name_map_name"), _FILES
    ),
    "partition_config_file": "use fabric.partitions of the cluster file",
    "qos_policy_file": "HCAs with purpose storage in the cluster file have a separate lane",
}
ENGINES = ("minhop", "updn", "dnup", "file", "ftree", "lash", "dor", "torus-2QoS", "nue", "dfsssp", "sssp")
# On cables between groups these make credit loops, or find no tree.
NOT_FOR_DRAGONFLY = ("ftree", "minhop", "updn", "dnup", "dor", "sssp", "torus-2QoS")
# Virtual lanes of data that HCAs and switches of this century have.
LANES = 4


class OptionError(ValueError):
    """Options that OpenSM would ignore or that would harm, with one reason a line."""


@dataclass(frozen=True)
class Lane:
    """Traffic of HCAs of a purpose: its service level, which is also its virtual lane, and its share of a link."""

    purpose: str
    sl: int
    weight: int


QOS = (Lane(COMPUTE, 0, 192), Lane(STORAGE, 1, 64))


@dataclass(frozen=True)
class Choices:
    """Choices for the SMs of a fabric. `engines` are tried in turn; empty: by the fabric's shape.

    With `no_fallback` OpenSM routes nothing at all when the engines refuse the fabric; without it, it takes minhop, which is 2 to 8 times
    slower on a fabric that is not whole and can block for ever on one that is no tree.
    """

    engines: tuple[str, ...] = ()
    no_fallback: bool = False
    qos: tuple[Lane, ...] = ()
    directory: str = "/etc/opensm"
    log: str = "/var/log/opensm.log"
    dumps: str = "/var/log"
    extra: tuple[tuple[str, str], ...] = ()


DEFAULTS = Choices()


def engines_of(plan: Plan, plane: str | None = None) -> tuple[str, ...]:
    """Return the routing engines for a plane, the best first.

    Nue makes no credit loops with one virtual lane; dfsssp and lash need service levels that only path records tell, and NCCL asks for
    none. Of a single switch ftree makes no tree; and it finds no leaves, and refuses the fabric, where compute HCAs are on less than two.
    """
    if plan.kind == "dragonfly":
        return ("nue",)
    tiers = {switch.tier for switch in plan.switches.values() if plane is None or switch.plane == plane}
    if len(tiers) < 2:
        return ("minhop",)
    compute = {name for name, hca in plan.hcas.items() if hca.purpose == COMPUTE and plane in (None, hca.plane)}
    leaves = {leaf for name, (leaf, _port) in plan.leaf_of().items() if name in compute}
    return ("updn",) if len(leaves) < 2 else ("ftree", "updn")


def options(plan: Plan, manager: SubnetManager, choices: Choices = DEFAULTS) -> dict[str, str]:
    """Return the options of the SM on an HCA; OptionError and GuidError name the mistakes."""
    hca = plan.hcas[manager.hca]
    wrong = _mistakes(plan, choices)
    if wrong:
        raise OptionError("\n".join(wrong))
    if missing := missing_guids(NeededGuids("opensm.conf", "port"), plan, [hca]):
        raise GuidError(missing)
    engines = choices.engines or engines_of(plan, hca.plane)
    tree = "ftree" in engines or "updn" in engines
    at = choices.directory.rstrip("/")
    found = {
        "guid": f"0x{guid_of(hca.port_guid)}",
        "sm_priority": str(manager.priority),
        # A standby takes over after four polls, a second each, without an answer; OpenSM's own default is 10 seconds each.
        "sminfo_polling_timeout": "1000",
        "polling_retry_number": "4",
        "lmc": "0",
        "max_wire_smps": "32",
        "use_ucast_cache": "TRUE",
        "honor_guid2lid_file": "TRUE",
        "routing_engine": ",".join([*engines, *(["no_fallback"] if choices.no_fallback else [])]),
        **({"root_guid_file": f"{at}/root_guid.conf"} if tree else {}),
        **({"cn_guid_file": f"{at}/cn_guid.conf"} if "ftree" in engines else {}),
        "guid_routing_order_file": f"{at}/guid_routing_order.conf",
        "node_name_map_name": f"{at}/node-name-map",
        "partition_config_file": f"{at}/partitions.conf",
        **({"allow_both_pkeys": "TRUE"} if needs_both_pkeys(plan) else {}),
        **_qos(choices, at),
        "log_file": choices.log,
        # Otherwise a line is in the log up to minutes after it is said.
        "force_log_flush": "TRUE",
        "dump_files_dir": choices.dumps,
    }
    return {**found, **dict(choices.extra)}


def _mistakes(plan: Plan, choices: Choices) -> list[str]:
    wrong = []
    for engine in choices.engines:
        if engine not in ENGINES:
            wrong.append(
                f"routing engine {engine!r} is not known to OpenSM, which would take minhop; allowed: {', '.join(ENGINES)}"
            )
        elif plan.kind == "dragonfly" and engine in NOT_FOR_DRAGONFLY:
            wrong.append(
                f"routing engine {engine} on a dragonfly: packets can block for ever; allowed: nue, dfsssp, lash, file"
            )
    for name, value in choices.extra:
        if name not in OPTIONS:
            hint = did_you_mean(name, OPTIONS, lead="; did", quoted=False)
            wrong.append(f"option {name!r} is not known to OpenSM 3.3.23, which would ignore it{hint}")
        if name in OWN:
            wrong.append(f"option {name} cannot be chosen: {OWN[name]}")
        elif "\n" in value or not value.strip():
            wrong.append(f"option {name} is {value!r}; allowed: text on one line; without it, OpenSM's default counts")
    return wrong


def _qos(choices: Choices, directory: str) -> Mapping[str, str]:
    if not choices.qos:
        return {"qos": "FALSE"}
    weights = {lane.sl: lane.weight for lane in choices.qos}
    return {
        "qos": "TRUE",
        "qos_policy_file": f"{directory}/qos-policy.conf",
        "qos_max_vls": str(LANES),
        # All lanes are in the table of low priority alone, so none can starve the others.
        "qos_high_limit": "0",
        "qos_vlarb_high": ",".join(f"{vl}:0" for vl in range(LANES)),
        "qos_vlarb_low": ",".join(f"{vl}:{weights.get(vl, 1)}" for vl in range(LANES)),
        "qos_sl2vl": ",".join(str(sl % LANES) for sl in range(16)),
    }


def opensm_conf(found: Mapping[str, str]) -> str:
    """Return opensm.conf."""
    return "".join(f"{name} {value}\n" for name, value in found.items())
