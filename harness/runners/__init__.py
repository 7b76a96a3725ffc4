"""How implementations are executed. Each runs in a process of its own, so that no defect of one harms another."""
